"""`make inspect FILE=...` is `meshnet inspect --json`, with several parts and further options as they are given."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_make_inspect_runs_the_command() -> None:
    command = ["make", "--no-print-directory", "-n", "inspect", "FILE=a.gguf b.gguf", "ARGS=--memory 100G"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines()[-1] == ".venv/bin/meshnet inspect --json --memory 100G a.gguf b.gguf"
