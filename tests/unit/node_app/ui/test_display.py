"""What Qt would abort at is found before; what it can do, and what only it can tell, is let through."""

from __future__ import annotations

import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from node_app.system.installing import QT_PACKAGES
from node_app.ui import display

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def x_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the tests' X servers listen; abstract names follow it, so that none of the machine's is met."""
    folder = tmp_path / "x"
    folder.mkdir()
    monkeypatch.setattr(display, "X_FOLDER", str(folder))
    return folder


@pytest.fixture
def end() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as opened:
        yield opened


def problem(tmp_path: Path, **environment: str) -> str:
    return display.find_problem(environment, tmp_path / "plugins", "linux")


@pytest.fixture
def xcb_without_a_library(tmp_path: Path) -> str:
    """Put a plugin for X11 there, and return the name of the library that it lacks."""
    folder = tmp_path / "plugins/platforms"
    folder.mkdir(parents=True)
    (tmp_path / "one.c").write_text("int one(void) { return 1; }\n")
    lacking = folder / "libmeshnet-lacking.so.0"
    build = ["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", str(tmp_path / "one.c")]
    subprocess.run([*build, f"-Wl,-soname,{lacking.name}", "-o", str(lacking)], check=True, timeout=60)
    subprocess.run([*build, str(lacking), "-o", str(folder / "libqxcb.so")], check=True, timeout=60)
    lacking.unlink()
    return lacking.name


def test_no_display_is_said(tmp_path: Path) -> None:
    said = "no display: neither WAYLAND_DISPLAY nor DISPLAY is set; start it on a desktop"
    assert problem(tmp_path) == problem(tmp_path, DISPLAY="", XDG_SESSION_TYPE="tty") == said


@pytest.mark.parametrize("value", [":7", ":7.0", "unix:7", "host/unix:7", "unix/:7", "nonsense", ":", ":7x", ":-1"])
def test_a_display_where_nobody_listens_is_named(value: str, tmp_path: Path) -> None:
    assert problem(tmp_path, DISPLAY=value) == f"no display: no server answers at DISPLAY={value!r}"


@pytest.mark.parametrize("value", [":7", ":7.0", "unix:7"])
@pytest.mark.parametrize("is_abstract", [True, False])
def test_a_display_where_somebody_listens_is_none(
    value: str, is_abstract: bool, end: socket.socket, x_folder: Path, tmp_path: Path
) -> None:
    end.bind("\0" * is_abstract + str(x_folder / "X7"))
    assert problem(tmp_path, DISPLAY=value)
    end.listen(1)
    assert problem(tmp_path, DISPLAY=value) == ""
    assert problem(tmp_path, DISPLAY=":8")


def test_a_server_whose_queue_is_full_is_there(end: socket.socket, x_folder: Path, tmp_path: Path) -> None:
    end.bind(str(x_folder / "X7"))
    end.listen(0)
    assert [problem(tmp_path, DISPLAY=":7") for _ in range(4)] == [""] * 4


@pytest.mark.parametrize(("host", "address"), [("127.0.0.1", "127.0.0.1"), ("tcp/localhost", "127.0.0.1")])
def test_a_display_of_another_machine_is_dialled(host: str, address: str, tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind((address, 0))
        value = f"{host}:{server.getsockname()[1] - display.X_PORT}.0"
        assert problem(tmp_path, DISPLAY=value)
        server.listen(1)
        assert problem(tmp_path, DISPLAY=value) == ""


def test_hosts_are_told_from_numbers() -> None:
    assert display.x_addresses("localhost:10.0") == [("localhost", 6010)]
    assert display.x_addresses("[::1]:0") == display.x_addresses("::1:0") == [("::1", 6000)]
    assert display.x_addresses("host") == []


@pytest.mark.parametrize("value", ["127.0.0.1:99999", f"{'x' * 70}.:0", "a..b:0"])
def test_hosts_and_ports_that_cannot_be_are_nobody(value: str, tmp_path: Path) -> None:
    assert "no server answers" in problem(tmp_path, DISPLAY=value)


def test_whoever_keeps_silent_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    let_go = threading.Event()

    def keep_silent(*_: object) -> None:
        let_go.wait(60)
        raise TimeoutError

    monkeypatch.setattr(display, "CONNECT_S", 0.05)
    monkeypatch.setattr(socket, "create_connection", keep_silent)
    try:
        assert "no server answers" in problem(tmp_path, DISPLAY="host:0")
    finally:
        let_go.set()


def test_wayland_is_looked_for_where_it_listens(end: socket.socket, tmp_path: Path) -> None:
    end.bind(str(tmp_path / "wayland-0"))
    session = {"XDG_SESSION_TYPE": "wayland", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert problem(tmp_path, **session) == "no display: no server answers at WAYLAND_DISPLAY='wayland-0'"
    end.listen(8)
    assert problem(tmp_path, **session) == ""
    assert problem(tmp_path, WAYLAND_DISPLAY=str(tmp_path / "wayland-0")) == ""
    assert problem(tmp_path, WAYLAND_DISPLAY="wayland-1", XDG_RUNTIME_DIR=str(tmp_path))
    assert problem(tmp_path, WAYLAND_DISPLAY="wayland-1", WAYLAND_SOCKET="5") == ""


def test_one_display_of_two_is_enough(end: socket.socket, x_folder: Path, tmp_path: Path) -> None:
    both = {"DISPLAY": ":7", "WAYLAND_DISPLAY": "dead", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert problem(tmp_path, **both) == "no display: no server answers at WAYLAND_DISPLAY='dead' or DISPLAY=':7'"
    end.bind(str(x_folder / "X7"))
    end.listen(8)
    assert problem(tmp_path, **both) == ""
    assert problem(tmp_path, **both, QT_QPA_PLATFORM="wayland")


@pytest.mark.parametrize("told", ["offscreen", "minimal:enable_fonts", "vnc", "xcb;offscreen", "unknown"])
def test_what_needs_no_display_is_left_to_qt(told: str, tmp_path: Path) -> None:
    assert problem(tmp_path, QT_QPA_PLATFORM=told) == ""
    assert problem(tmp_path, QT_QPA_PLATFORM=told, DISPLAY=":7") == ""


@pytest.mark.parametrize("told", ["xcb", "XCB", "xcb:argument=1"])
def test_what_needs_one_is_not(told: str, tmp_path: Path) -> None:
    assert problem(tmp_path, QT_QPA_PLATFORM=told) == "no display: no server answers at DISPLAY=''"


def test_other_systems_have_other_displays(tmp_path: Path) -> None:
    assert display.find_problem({}, tmp_path, "darwin") == display.find_problem({}, tmp_path, "win32") == ""


def test_a_missing_library_is_named_with_the_packages(xcb_without_a_library: str, tmp_path: Path) -> None:
    text = problem(tmp_path, DISPLAY=":7")
    assert text.startswith(f"Qt cannot be loaded ({xcb_without_a_library}: cannot open shared object file")
    assert text.endswith(f"apt-get install {' '.join(QT_PACKAGES)}")
    assert text.count("\n") == text.count("pip") == 0
    # Also where the other way is only dead; and where nothing is to be shown it is not missed.
    assert problem(tmp_path, DISPLAY=":7", WAYLAND_DISPLAY="dead") == text
    assert problem(tmp_path, DISPLAY=":7", QT_QPA_PLATFORM="offscreen") == ""


@pytest.mark.usefixtures("xcb_without_a_library")
def test_a_display_that_can_be_shown_on_makes_the_other_way_needless(end: socket.socket, tmp_path: Path) -> None:
    end.bind(str(tmp_path / "wayland-0"))
    end.listen(1)
    assert problem(tmp_path, DISPLAY=":7", WAYLAND_DISPLAY=str(tmp_path / "wayland-0")) == ""
