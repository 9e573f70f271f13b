"""Set up a checkout: system packages, .venv, llama.cpp's source, its Python bindings, the demo model.

    python3 packaging/bootstrap.py

Standard library only; runs under the system's Python. Idempotent: a stamp of everything it depends on makes the second
call return at once. Exit status 2 with one line on stderr when something must be installed by hand first.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import demo_model
import system_packages

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
VENV_PYTHON = ROOT / ".venv/bin/python"
CONSTRAINTS = ROOT / "packaging/constraints.txt"
INPUTS = tuple(
    ROOT / name
    for name in (
        "native/provenance.json",
        "packaging/bootstrap.py",
        "packaging/demo_model.json",
        "packaging/demo_model.py",
        "packaging/system_packages.py",
        "shared/meshnet/__init__.py",
    )
)
STAMP = BUILD / "bootstrap.stamp"
MINIMUM_PYTHON = (3, 11)
EXTRAS = "site,node,tray,dev"
# Build back ends come first, pinned, so that nothing is built in an isolated environment with unpinned ones.
BUILD_BACK_ENDS = ("editables", "hatchling", "scikit-build-core")
_STEP_TIMEOUT_S = 3600
_EXIT_PREREQUISITE = 2
_EXIT_INTERRUPTED = 130


def _inputs_digest() -> str:
    """Digest what decides the set-up: only those tables of pyproject, so that a new lint rule installs nothing."""
    import tomllib  # noqa: PLC0415 - newer than the Pythons that must still be told they are too old

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tables = [project["build-system"], project["project"], project["tool"]["hatch"]]
    machine = [sys.version, str(ROOT), os.geteuid() == 0]
    digest = hashlib.sha256(json.dumps([machine, tables], sort_keys=True).encode())
    for path in [*INPUTS, CONSTRAINTS]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_current(digest: str) -> bool:
    outputs = [VENV_PYTHON, STAMP, demo_model.DemoModel.from_manifest().path(BUILD)]
    return all(path.is_file() for path in outputs) and STAMP.read_text(encoding="ascii") == digest


def _run(*command: str, **environment: str) -> None:
    subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        timeout=_STEP_TIMEOUT_S,
        check=True,
    )


def _pip(*arguments: str, **environment: str) -> None:
    bar = "on" if sys.stdout.isatty() else "off"
    _run(
        str(VENV_PYTHON),
        *("-m", "pip", "install", "--no-input", "--disable-pip-version-check", f"--progress-bar={bar}"),
        *("--constraint", str(CONSTRAINTS), *arguments),
        **environment,
    )


def _make_venv() -> None:
    if not VENV_PYTHON.exists():
        _run(sys.executable, "-m", "venv", "--clear", str(ROOT / ".venv"))


def _install_python_packages() -> None:
    _pip(*BUILD_BACK_ENDS)
    _pip("--no-build-isolation", "--editable", f".[{EXTRAS}]")


def _install_bindings() -> None:
    """Install llama-cpp-python from the verified archive without its library: ours is used (LLAMA_CPP_LIB_PATH)."""
    _run(str(VENV_PYTHON), "native/tools/llama_source.py", "fetch")
    sys.path.insert(0, str(ROOT / "native/tools"))
    import llama_source  # noqa: PLC0415 - lives outside this folder

    at = llama_source.places(ROOT)
    archive = at.downloads / llama_source.read_provenance(at.provenance).archive.file_name
    _pip("--no-build-isolation", str(archive), CMAKE_ARGS="-DLLAMA_BUILD=OFF")


def _step(name: str, started_s: float) -> None:
    print(f"bootstrap: {name} ({time.monotonic() - started_s:.0f} s)", flush=True)


def bootstrap() -> None:
    """Bring the checkout up to date.

    Raises:
        MissingPrerequisiteError: something must be installed by hand first.
        subprocess.CalledProcessError: a step failed; it has told why.
        ModelFetchError: the demo model could not be had, or is not the one in its manifest.
    """
    digest = _inputs_digest()
    if _is_current(digest):
        print("bootstrap: up to date")
        return
    started_s = time.monotonic()
    BUILD.mkdir(exist_ok=True)
    STAMP.unlink(missing_ok=True)
    _step(system_packages.provide(BUILD), started_s)
    _make_venv()
    _step("virtual environment", started_s)
    _install_python_packages()
    _step("Python packages", started_s)
    _install_bindings()
    _step("llama.cpp source and bindings", started_s)
    demo_model.fetch(BUILD, python=str(VENV_PYTHON))
    _step("demo model", started_s)
    STAMP.write_text(digest, encoding="ascii")


def main() -> int:
    """Check what can be checked without help, then set up."""
    if sys.version_info < MINIMUM_PYTHON:
        wanted, found = ".".join(map(str, MINIMUM_PYTHON)), ".".join(map(str, sys.version_info[:3]))
        print(f"bootstrap: Python {wanted} or newer is needed, this is {found}", file=sys.stderr)
        return _EXIT_PREREQUISITE
    try:
        bootstrap()
    except system_packages.MissingPrerequisiteError as error:
        print(f"bootstrap: {error}", file=sys.stderr)
        return _EXIT_PREREQUISITE
    except (subprocess.SubprocessError, demo_model.ModelFetchError) as error:
        print(f"bootstrap: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbootstrap: interrupted; the next run goes on from here", file=sys.stderr)
        return _EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
