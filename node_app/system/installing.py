"""Advice for a person who must install a missing package or library.

Invariants: pure, and needs nothing but Python. Packages are installed from Meshnet's own folder only: no registry
carries Meshnet, so `pip install meshnet` would fetch an unrelated package of that name.
"""

from __future__ import annotations

import re
from typing import Final

# Packages of Debian and Ubuntu that hold the libraries Qt needs to load and to show windows with X11 or Wayland; a test
# compares them with packaging/qt_libraries.py.
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
# glibc's message if a library is missing. The excluded ones come with their Python package or are built by `make`, so
# the system's package manager does not have them.
_NO_LIBRARY: Final = re.compile(r"(lib(?!Qt|pyside|shiboken|llama|ggml|mtmd)[\w.+-]+): cannot open shared object file")


def installing(extra: str) -> str:
    """Return the command that installs an extra of the package, for example "tray"."""
    return f"in Meshnet's folder: .venv/bin/pip install -e '.[{extra}]'"


def missing_library(problem: str) -> str:
    """Return the system library that an import needed and did not find; empty if it failed for another reason.

    Args:
        problem: the text of the ImportError.
    """
    found = _NO_LIBRARY.match(problem)
    return found[1] if found else ""


def installing_qt(problem: str) -> str:
    """Return the advice for a failed import of Qt: install the tray's extra, or the system libraries that Qt needs."""
    if not missing_library(problem):
        return installing("tray")
    packages = " ".join(QT_PACKAGES)
    return f"install the system's libraries that Qt needs; on Debian and Ubuntu: apt-get install {packages}"
