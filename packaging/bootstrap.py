"""Set up a checkout: system packages, .venv, llama.cpp's source, its Python bindings, the demo model.

    python3 packaging/bootstrap.py

It needs only the standard library and runs under the system's Python. Idempotent: build/bootstrap.stamp holds a digest
of everything that the set-up depends on, so that a second run returns at once. If something must be installed by hand
first, the program prints one line on stderr and returns exit status 2.
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
# Pinned build back ends, installed first, so that no package is built in an isolated environment with unpinned ones.
BUILD_BACK_ENDS = ("editables", "hatchling", "scikit-build-core")
_STEP_TIMEOUT_S = 3600
_EXIT_PREREQUISITE = 2
_EXIT_INTERRUPTED = 130


def _inputs_digest() -> str:
    """Return a digest of everything that the set-up depends on.

    Only the tables of the build and the dependencies are taken from pyproject.toml, so that a new lint rule there does
    not cause everything to be installed again.
    """
    import tomllib  # noqa: PLC0415 - absent from Pythons that are too old, which `main` refuses with a message

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
    """Install llama-cpp-python from the verified archive, without building the libllama that the archive contains."""
    _run(str(VENV_PYTHON), "native/tools/llama_source.py", "fetch")
    sys.path.insert(0, str(ROOT / "native/tools"))
    import llama_source  # noqa: PLC0415 - it is in another folder

    at = llama_source.places(ROOT)
    archive = at.downloads / llama_source.read_provenance(at.provenance).archive.file_name
    _pip("--no-build-isolation", str(archive), CMAKE_ARGS="-DLLAMA_BUILD=OFF")


def _step(name: str, started_s: float) -> None:
    print(f"bootstrap: {name} ({time.monotonic() - started_s:.0f} s)", flush=True)


def bootstrap() -> None:
    """Set up the checkout; if it is up to date, do nothing.

    Raises:
        MissingPrerequisiteError: something must be installed by hand first.
        subprocess.CalledProcessError: a step failed and has printed the reason.
        ModelFetchError: the demo model could not be fetched, or does not match its manifest.
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
    """Check Python's version, then set up; return the exit status."""
    if sys.version_info < MINIMUM_PYTHON:
        wanted, found = ".".join(map(str, MINIMUM_PYTHON)), ".".join(map(str, sys.version_info[:3]))
        print(f"bootstrap: run it with Python {wanted} or newer; this is {found}", file=sys.stderr)
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
        print("\nbootstrap: interrupted; the next run continues from here", file=sys.stderr)
        return _EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
