"""Children that die with their parent: with real processes, and one that is not bound as the control."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from meshnet import parent_death
from meshnet.parent_death import EXIT_CANNOT_RUN, EXIT_USAGE

DEADLINE_S = 10.0
EXIT_ORPHANED = 1

# A parent that starts `sleep`, says its pid and waits to be killed.
PARENT = """
import subprocess, sys
from meshnet.parent_death import bound_command
command = ["/bin/sleep", "60"]
bound = bound_command(command, oom_score_adjustment=500) if sys.argv[1] == "bound" else command
print(subprocess.Popen(bound, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid, flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal is Linux's")


def process_state(pid: int) -> str:
    """The kernel's letter for a process; Z where nobody has reaped it, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def holds_within(condition: Callable[[], bool], deadline_s: float) -> bool:
    until_s = time.monotonic() + deadline_s
    while not (holds := condition()) and time.monotonic() < until_s:
        time.sleep(0.01)
    return holds


@pytest.mark.parametrize(("kind", "dies"), [("bound", True), ("free", False)])
def test_only_a_bound_child_dies_with_its_killed_parent(kind: str, dies: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert holds_within(lambda: Path(f"/proc/{child}/comm").read_text().strip() == "sleep", DEADLINE_S)
        adjustment = Path(f"/proc/{child}/oom_score_adj").read_text().strip()
        parent.kill()
    try:
        assert holds_within(lambda: process_state(child) in {"", "Z"}, DEADLINE_S if dies else 0.3) is dies
        if dies:
            assert adjustment == "500"
    finally:
        if not dies:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ([], EXIT_USAGE),
        (["x", "0", "/bin/true"], EXIT_USAGE),
        (["1", "-5", "/bin/true"], EXIT_USAGE),
        (["1", "0", "/bin/true"], EXIT_ORPHANED),
        (["own", "0", "/no/such/program"], EXIT_CANNOT_RUN),
        (["own", "0", "/bin/true"], 0),
    ],
)
def test_the_launcher_refuses_what_it_cannot_do(arguments: list[str], status: int) -> None:
    given = [str(os.getpid()) if one == "own" else one for one in arguments]
    command = [sys.executable, "-I", "-S", parent_death.__file__, *given]
    assert subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=False).returncode == status


def test_an_orphan_does_not_go_on() -> None:
    program = "from meshnet.parent_death import die_with_parent; die_with_parent(1); print('started')"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stdout) == (EXIT_ORPHANED, "")
    assert "the parent process is gone" in done.stderr
