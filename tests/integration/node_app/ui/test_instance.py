"""One tray for each state directory, also after one was killed; and the command as it is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Wait = Callable[..., None]

pytestmark = pytest.mark.qt

END_TIMEOUT_S = 15.0


@pytest.fixture
def start_tray() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `meshnet-tray` as a process; none is left afterwards."""
    started: list[subprocess.Popen[str]] = []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MESHNET_")}
    environment |= {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "node_app.ui.main", *arguments]
        started.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=END_TIMEOUT_S)


def wait_for_lock(state_dir: Path) -> None:
    ends_s = time.monotonic() + END_TIMEOUT_S
    while not (state_dir / "tray.lock").exists():
        assert time.monotonic() < ends_s, "the tray did not start"
        time.sleep(0.02)


def test_a_second_tray_shows_the_first_one(qt_application: object, tmp_path: Path, wait_until: Wait) -> None:
    from node_app.ui.instance import TrayInstance

    first, second, elsewhere = (TrayInstance(path) for path in (tmp_path, tmp_path, tmp_path / "other"))
    (tmp_path / "other").mkdir()
    shown: list[bool] = []
    first.show_wished.connect(lambda: shown.append(True))
    assert first.claim()
    assert elsewhere.claim()
    assert not second.claim()
    wait_until(lambda: shown)
    assert len(shown) == 1
    first.release()
    first.release()
    assert second.claim()
    second.release()
    elsewhere.release()


def test_a_tray_that_was_killed_locks_nobody_out(
    qt_application: object, tmp_path: Path, start_tray: Callable[..., subprocess.Popen[str]]
) -> None:
    from node_app.ui.instance import TrayInstance

    process = start_tray("--state-dir", str(tmp_path))
    wait_for_lock(tmp_path)
    instance = TrayInstance(tmp_path)
    assert not instance.claim()
    process.kill()
    process.wait(END_TIMEOUT_S)
    assert instance.claim()
    instance.release()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_tray_in_order(
    number: signal.Signals, tmp_path: Path, start_tray: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start_tray("--state-dir", str(tmp_path), "--hidden")
    wait_for_lock(tmp_path)
    second = start_tray("--state-dir", str(tmp_path))
    assert second.wait(END_TIMEOUT_S) == 0
    assert "already running" in second.communicate()[1]
    process.send_signal(number)
    assert process.wait(END_TIMEOUT_S) == 0
    assert not (tmp_path / "tray.lock").exists()
    assert "Traceback" not in process.communicate()[1]


def test_a_directory_that_cannot_be_used_is_one_line(
    tmp_path: Path, start_tray: Callable[..., subprocess.Popen[str]]
) -> None:
    (tmp_path / "file").touch()
    process = start_tray("--state-dir", str(tmp_path / "file" / "state"))
    assert process.wait(END_TIMEOUT_S) == 1
    lines = process.communicate()[1].splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("meshnet-tray: ")
