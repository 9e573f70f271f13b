"""Provide a Chromium for the browser tests: this machine's own, or else the distribution's package.

    python3 packaging/chromium.py

It needs only the standard library. If the user is root, or sudo asks for no password, the package is installed;
otherwise it is unpacked into build/browser, with the libraries that this machine lacks. Only `make test` needs a
browser, and the browsers of the test library are never downloaded. If no browser can be provided, it prints one line on
stderr and returns exit status 2.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import system_packages

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
# If this variable names a browser, it is used; it must speak Chromium's debugging protocol.
VARIABLE = "MESHNET_TEST_BROWSER"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGE = "chromium"
_START_TIMEOUT_S = 60

# Makes the browser look for its libraries, fonts and font settings in its own folder first.
_START_SCRIPT = """\
#!/bin/sh
# Written by packaging/chromium.py: starts the browser that is unpacked beside this file.
root=$(dirname "$(readlink -f "$0")")
for folder in {folders}; do
  LD_LIBRARY_PATH=${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}$root/$folder
done
export LD_LIBRARY_PATH FONTCONFIG_PATH="$root/etc/fonts" XDG_DATA_HOME="$root/usr/share"
exec "$root/usr/lib/chromium/chromium" "$@"
"""


def find(build: Path = BUILD) -> str | None:
    """Return the browser that VARIABLE names, the unpacked one, or the first on PATH; None if there is none."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    unpacked = build / "browser/start"
    if unpacked.exists():  # `provide` unpacks one only if no browser on the path starts
        return str(unpacked)
    return next((path for path in map(shutil.which, PROGRAMS) if path is not None), None)


def provide(build: Path) -> str:
    """Make a browser available and return a line that says how. Idempotent.

    Raises:
        MissingPrerequisiteError: this machine's package manager cannot provide one.
    """
    found = find(build)
    if found is not None and _starts(found):
        return f"browser: {found}"
    try:
        as_root = system_packages.root_command()
        if as_root is not None:
            system_packages.install([PACKAGE], as_root)
            return f"browser: {PACKAGE} installed"
        return _unpack(build / "browser")
    except system_packages.MissingPrerequisiteError as error:
        message = f"install Chromium or Chrome, or set {VARIABLE} to the path of one: {error}"
        raise system_packages.MissingPrerequisiteError(message) from error


def _starts(program: str) -> bool:
    """Return whether a browser starts; Ubuntu's `chromium-browser` may only print that it needs a snap."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=_START_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _unpack(prefix: Path) -> str:
    count = system_packages.unpack([PACKAGE], prefix)
    start = prefix / "start"
    folders = {path.parent.relative_to(prefix).as_posix() for path in prefix.rglob("lib*.so*")}
    start.write_text(_START_SCRIPT.format(folders=" ".join(sorted(folders))), encoding="ascii")
    start.chmod(0o755)
    return f"browser: {count} packages unpacked into {prefix}"


def main() -> int:
    """Provide a browser; if that fails, print one line with the remedy. Returns the exit status."""
    return system_packages.run_provider("browser", provide, BUILD)


if __name__ == "__main__":
    sys.exit(main())
