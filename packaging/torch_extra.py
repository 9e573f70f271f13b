"""Installs PyTorch for the reference engine: the extras [torch] and [transformers], with PyTorch's build for CPUs.

    .venv/bin/python packaging/torch_extra.py

Run it with the Python of the virtual environment. Only the reference engine, `make test`, `make oracle` and
`make bench-baseline` need PyTorch. It takes 210 MB to download and 830 MB on disk, so `make bootstrap` does not install
it. If pip's configured indexes have no build for CPUs, it comes from PyTorch's index. If the installation fails, pip
prints the reason, and the exit status is 1.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = "2.13.0"
# Libraries that read folders of safetensors; constraints.txt also pins their own dependencies.
LIBRARIES = ("safetensors", "transformers")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_INSTALL_TIMEOUT_S = 1800


def commands() -> list[list[str]]:
    """Return the command lines that can install PyTorch; they are tried in order until one succeeds."""
    torch = [*_pip(), f"torch=={VERSION}+cpu"]
    return [torch, [*torch, "--extra-index-url", CPU_INDEX]]


def provide() -> bool:
    """Install PyTorch and LIBRARIES, if no version of them is installed; return whether all are now. Idempotent."""
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
    """Install PyTorch, print the result and return the exit status."""
    if not provide():
        print(f"torch: PyTorch {VERSION} for CPUs, or transformers, could not be installed", file=sys.stderr)
        return 1
    print("torch: installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
