"""A Chromium for the browser tests: this machine's own, else the distribution's package.

    python3 packaging/chromium.py

Standard library only. As root, or where sudo asks for no password, the package is installed; elsewhere it is unpacked,
with the libraries that this machine lacks, into build/browser. Nothing but `make test` needs it, and the test library's
own browsers are never downloaded. Exit status 2 with one line on stderr where no browser can be had this way.
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
# Names a browser outright; it must speak Chromium's debugging protocol.
VARIABLE = "MESHNET_TEST_BROWSER"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGE = "chromium"
_START_TIMEOUT_S = 60

# Libraries, fonts and their settings are looked for beside the program first.
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
    """Return a browser to drive, or None where there is none yet."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    unpacked = build / "browser/start"
    if unpacked.exists():  # only where the path has none that starts
        return str(unpacked)
    return next((path for path in map(shutil.which, PROGRAMS) if path is not None), None)


def provide(build: Path) -> str:
    """Make a browser available and return a line saying how. Idempotent.

    Raises:
        MissingPrerequisiteError: it cannot be had from this machine's packages.
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
        message = f"install Chromium or Chrome, or name one in {VARIABLE}: {error}"
        raise system_packages.MissingPrerequisiteError(message) from error


def _starts(program: str) -> bool:
    """Whether it runs here at all: on Ubuntu the program may only say that it wants a snap."""
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
    """Provide a browser, or say in one line what to do."""
    return system_packages.run_provider("browser", provide, BUILD)


if __name__ == "__main__":
    sys.exit(main())
