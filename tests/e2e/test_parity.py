"""`make parity` in short: one cut of the real model, also in the shipped program, and the control that must differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 240

pytestmark = [pytest.mark.e2e, pytest.mark.native, pytest.mark.llama, pytest.mark.timeout(DEADLINE_S + 30)]


def test_a_cut_model_gives_the_same_bits_and_the_control_does_not() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.parity", "--short"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "packaging/demo")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    record = json.loads(done.stdout.splitlines()[-1])
    assert (record["rows"], record["mismatched"], record["cuts"]) == (24, 0, ["7|23"])
    assert (record["shipped_tokens"], record["shipped_mismatched"]) == (24, 0)
    assert record["control_clean_mismatched"] == 0
    assert record["control_mismatched"] > 0
