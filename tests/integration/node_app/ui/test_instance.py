"""One tray for each state directory, also after one was killed; and the command as it is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from node_app.ui import main as tray_main

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
    foreign = ("MESHNET_", "DISPLAY", "WAYLAND_", "XDG_SESSION_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)

    def start(*arguments: str, platform: str = "offscreen") -> subprocess.Popen[str]:
        environment["QT_QPA_PLATFORM"] = platform
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
    first.show_requested.connect(lambda: shown.append(True))
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


def test_no_display_is_one_line_and_nothing_is_made(
    tmp_path: Path, start_tray: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start_tray("--state-dir", str(tmp_path / "state"), platform="")
    assert process.wait(END_TIMEOUT_S) == 2
    (line,) = process.communicate()[1].splitlines()
    assert line.startswith("meshnet-tray: no display: ")
    assert not (tmp_path / "state").exists()


def test_a_library_that_qt_lacks_is_one_line_with_the_systems_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def lack(*_: object, **__: object) -> int:
        raise ImportError("libGL.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(tray_main, "run", lack)
    monkeypatch.setattr(sys, "argv", ["meshnet-tray", "--state-dir", str(tmp_path)])
    assert tray_main.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("meshnet-tray: Qt cannot be loaded (libGL.so.1: ")
    assert "apt-get install" in line
    assert "pip" not in line
