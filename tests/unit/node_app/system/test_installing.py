"""What is advised brings what is missing: the package's extra, or the system's libraries."""

from __future__ import annotations

import pytest

import qt_libraries
from node_app.system.installing import QT_PACKAGES, installing_qt, missing_library

NO_FILE = "cannot open shared object file: No such file or directory"


def test_the_packages_bring_every_library_that_qt_needs() -> None:
    needed = {**qt_libraries.LIBRARIES, **qt_libraries.DISPLAY_LIBRARIES}
    assert len(needed) == len(qt_libraries.LIBRARIES) + len(qt_libraries.DISPLAY_LIBRARIES)
    assert list(QT_PACKAGES) == sorted(set(needed.values()))


def test_a_library_of_the_system_is_installed_with_its_packages() -> None:
    advice = installing_qt(f"libGL.so.1: {NO_FILE}")
    assert missing_library(f"libGL.so.1: {NO_FILE}") == "libGL.so.1"
    assert f"apt-get install {' '.join(QT_PACKAGES)}" in advice
    assert "pip" not in advice


@pytest.mark.parametrize("problem", ["No module named 'PySide6'", f"libQt6Core.so.6: {NO_FILE}", "undefined symbol: x"])
def test_all_else_of_qt_comes_with_the_trays_extra(problem: str) -> None:
    assert missing_library(problem) == ""
    assert installing_qt(problem) == "in Meshnet's folder: .venv/bin/pip install -e '.[tray]'"
