"""How a person installs what is missing.

Invariants: pure, and needs nothing but Python. Only ever from Meshnet's own folder: no registry carries the package, so
its bare name would fetch whatever stands there.
"""

from __future__ import annotations

import re
from typing import Final

# Packages of Debian and Ubuntu with what Qt needs of the system, to be loaded and to show windows with X11 or Wayland;
# a test compares them with packaging/qt_libraries.py.
QT_PACKAGES: Final = (
    "libdbus-1-3",
    "libegl1",
    "libfontconfig1",
    "libfreetype6",
    "libgl1",
    "libglib2.0-0",
    "libgssapi-krb5-2",
    "libwayland-client0",
    "libwayland-cursor0",
    "libwayland-egl1",
    "libx11-6",
    "libx11-xcb1",
    "libxcb-cursor0",
    "libxcb-glx0",
    "libxcb-icccm4",
    "libxcb-image0",
    "libxcb-keysyms1",
    "libxcb-randr0",
    "libxcb-render-util0",
    "libxcb-render0",
    "libxcb-shape0",
    "libxcb-shm0",
    "libxcb-sync1",
    "libxcb-xfixes0",
    "libxcb-xkb1",
    "libxcb1",
    "libxkbcommon-x11-0",
    "libxkbcommon0",
    "libzstd1",
    "zlib1g",
)
# How glibc says that what a library needs is not there; the libraries named here come with their module, or are built.
_NO_LIBRARY: Final = re.compile(r"(lib(?!Qt|pyside|shiboken|llama|ggml|mtmd)[\w.+-]+): cannot open shared object file")


def installing(extra: str) -> str:
    """Return the advice that brings what an extra of the package names."""
    return f"in Meshnet's folder: .venv/bin/pip install -e '.[{extra}]'"


def missing_library(problem: str) -> str:
    """Return the library of the system for whose lack a module could not be loaded; empty where that was not why."""
    found = _NO_LIBRARY.match(problem)
    return found[1] if found else ""


def installing_qt(problem: str) -> str:
    """Return the advice that helps where Qt cannot be loaded: the tray's extra, or what Qt needs of the system."""
    if not missing_library(problem):
        return installing("tray")
    packages = " ".join(QT_PACKAGES)
    return f"install the system's libraries that Qt needs; on Debian and Ubuntu: apt-get install {packages}"
