"""The limit is raised as far as the system allows; each case in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from node_app.system.open_files import WANTED

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")

PROGRAM = """
import resource, subprocess, sys
soft, hard = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from node_app.system.open_files import raise_open_files_limit
told = raise_open_files_limit()
child = subprocess.run(["sh", "-c", "ulimit -S -n; ulimit -H -n"], capture_output=True, text=True, check=True)
print(told, *child.stdout.split())
"""


@pytest.mark.parametrize(("soft", "hard", "raised"), [(256, 512, 512), (512, 512, 512), (64, 128, 128)])
def test_it_is_raised_to_the_hard_limit_and_children_have_it(soft: int, hard: int, raised: int) -> None:
    assert hard < WANTED
    command = [sys.executable, "-c", PROGRAM, str(soft), str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert [int(word) for word in done.stdout.split()] == [raised, raised, hard]
