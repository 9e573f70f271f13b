"""`make oracle` on the generated models: llama.cpp agrees with PyTorch at every seam, and the controls do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150
TINY_MODELS, WEIGHT_TYPES = 9, 15

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.native,
    pytest.mark.llama,
    pytest.mark.torch,
    pytest.mark.timeout(DEADLINE_S + 30),
]


def test_both_engines_agree_at_every_seam_and_the_controls_do_not() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.oracle", "--tiny"],
        cwd=ROOT,
        env=os.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["compared"], report["good"]) == (TINY_MODELS + WEIGHT_TYPES,) * 2
    for record in report["models"].values():
        assert (record["seams"], record["rows"], record["controls_seen"]) == (4, 192, 2)
