"""PyTorch for the reference engine and its tests: the extras [torch] and [transformers] with PyTorch's build for CPUs.

    .venv/bin/python packaging/torch_extra.py

Run with the environment's own Python. Nothing but `make test`, `make oracle`, `make bench-baseline` and those who want
the engine needs it: 210 MB to fetch and 830 MB on disk, so `make bootstrap` leaves it out. Where pip's own indexes have
no build for CPUs, it comes from PyTorch's index. Exit status 1 with pip's words where it cannot be had.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = "2.13.0"
# Reads folders of safetensors; what they need in turn is in constraints.txt as well.
LIBRARIES = ("safetensors", "transformers")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_INSTALL_TIMEOUT_S = 1800


def commands() -> list[list[str]]:
    """Return the ways to install PyTorch, the first that works being enough."""
    torch = [*_pip(), f"torch=={VERSION}+cpu"]
    return [torch, [*torch, "--extra-index-url", CPU_INDEX]]


def provide() -> bool:
    """Install what is not there yet in some version; whether all of it is there now. Idempotent."""
    if importlib.util.find_spec("torch") is None and not any(_succeeds(command) for command in commands()):
        return False
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    return not missing or _succeeds([*_pip(), *missing])


def _pip() -> list[str]:
    pip = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    return [*pip, "--constraint", str(ROOT / "packaging/constraints.txt")]


def _succeeds(command: list[str]) -> bool:
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=_INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        print(f"torch: pip took more than {_INSTALL_TIMEOUT_S} s", file=sys.stderr)
        return False
    return done.returncode == 0


def main() -> int:
    """Make it available and say so."""
    if not provide():
        print(f"torch: PyTorch {VERSION} for CPUs, or transformers, cannot be had here", file=sys.stderr)
        return 1
    print("torch: there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
