"""The tray's application on an off-screen display, with short waits."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.integration.node_app.ui.fake_agent import FakeAgent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from PySide6.QtWidgets import QApplication

    from node_app.ui.application import TrayApplication

WAIT_S = 10.0
POLL_MS = 40
DEADLINE_MS = 400


@pytest.fixture(scope="session")
def qt_application() -> Iterator[QApplication]:
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtWidgets import QApplication

    application = QApplication(["tests"])
    application.setQuitOnLastWindowClosed(False)
    yield application
    application.shutdown()


@pytest.fixture
def wait_until(qt_application: QApplication) -> Callable[..., None]:
    """Run Qt's event loop until something is so, to a deadline."""
    from PySide6.QtCore import QEventLoop, QTimer

    def wait(is_so: Callable[[], object], deadline_s: float = WAIT_S) -> None:
        ends_s = time.monotonic() + deadline_s
        while not is_so():
            if time.monotonic() > ends_s:
                raise AssertionError("it did not come so in time")
            loop = QEventLoop()
            QTimer.singleShot(5, loop.quit)
            loop.exec()

    return wait


@pytest.fixture
def tray(qt_application: QApplication, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TrayApplication]:
    """A tray that looks at `tmp_path`; not started. Nothing of it may be left afterwards."""
    from node_app.ui import client, watcher
    from node_app.ui.application import TrayApplication

    monkeypatch.setattr(watcher, "POLL_MS", POLL_MS)
    monkeypatch.setattr(client, "DEADLINE_MS", DEADLINE_MS)
    application = TrayApplication(tmp_path)
    yield application
    application.close()
    assert application.watcher.in_flight == 0


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[FakeAgent]:
    with FakeAgent(tmp_path) as running:
        yield running
