"""Provide the system libraries that Qt loads: this machine's own, or else the distribution's packages.

    python3 packaging/qt_libraries.py

It needs only the standard library. If the user is root, or sudo asks for no password, the packages are installed;
otherwise they are unpacked into build/qt, and `environment` returns the variables with which programs find them. A
desktop has all of these libraries, but the tray's tests also run on servers, which lack some. If the libraries cannot
be provided, the program prints one line on stderr and returns exit status 2.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path

import system_packages

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
# Libraries that PySide6's QtWidgets, QtNetwork and off-screen display need and do not contain, with their packages.
LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11.so.6": "libx11-6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libz.so.1": "zlib1g",
    "libzstd.so.1": "libzstd1",
}
# Libraries that its X11 and Wayland displays need as well. They are named in messages and not provided, because the
# tests run off screen.
DISPLAY_LIBRARIES = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libwayland-egl.so.1": "libwayland-egl1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-glx.so.0": "libxcb-glx0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
# Packages of graphics drivers, which are not unpacked: nothing loads them if Qt runs off screen.
_DRIVERS = re.compile(r"(libllvm|libz3-|libgl1-mesa-dri|libgbm|libdrm-|libsensors)", re.IGNORECASE)


def can_load(name: str) -> bool:
    """Return whether the dynamic linker finds a library, in the system's folders or in LD_LIBRARY_PATH."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def folders(prefix: Path) -> list[Path]:
    """Return the folders under `prefix` that hold shared libraries."""
    return sorted({path.parent for path in prefix.rglob("lib*.so.*")})


def missing(build: Path) -> list[str]:
    """Return the packages of those LIBRARIES that neither this machine nor build/qt has, in a stable order."""
    unpacked = {path.name for folder in folders(build / "qt") for path in folder.iterdir()}
    return sorted({LIBRARIES[name] for name in LIBRARIES if name not in unpacked and not can_load(name)})


def environment(build: Path = BUILD) -> dict[str, str]:
    """Return environment variables with which programs find the unpacked libraries; {} if none was unpacked."""
    unpacked = [str(folder) for folder in folders(build / "qt")]
    if not unpacked:
        return {}
    before = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": ":".join([*([before] if before else []), *unpacked])}


def provide(build: Path) -> str:
    """Make the libraries available and return a line that says how. Idempotent.

    Raises:
        MissingPrerequisiteError: this machine's package manager cannot provide them.
    """
    packages = missing(build)
    if not packages:
        return "Qt's libraries: none are missing"
    as_root = system_packages.root_command()
    if as_root is not None:
        system_packages.install(packages, as_root)
        return f"Qt's libraries: {len(packages)} packages installed"
    # Unpacking replaces the prefix, so every package that the system lacks is unpacked, even if an older prefix has it.
    wanted = sorted({LIBRARIES[name] for name in LIBRARIES if not can_load(name)})
    count = system_packages.unpack(wanted, build / "qt", leave_out=_DRIVERS)
    return f"Qt's libraries: {count} packages unpacked into build/qt"


def main() -> int:
    """Provide the libraries; if that fails, print one line with the remedy. Returns the exit status."""
    return system_packages.run_provider("Qt's libraries", provide, BUILD)


if __name__ == "__main__":
    sys.exit(main())
