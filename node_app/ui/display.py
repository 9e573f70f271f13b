"""Whether Qt will find a display, found out before it is asked: a Qt that finds none aborts the process.

Invariants: without Qt. Only what Qt would fail at as well is a problem: what shows nothing (`offscreen`) or is not
known here is left to Qt. Each way to a display takes CONNECT_S at most.
"""

from __future__ import annotations

import ctypes
import re
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from node_app.system.installing import installing_qt

if TYPE_CHECKING:
    from collections.abc import Mapping

# A path, where a first NUL means Linux's abstract names, or host and port.
Address: TypeAlias = str | tuple[str, int]

CONNECT_S: Final = 2.0
X_FOLDER: Final = "/tmp/.X11-unix"  # noqa: S108 - where every X server of this machine listens
X_PORT: Final = 6000
# Source: X(7), "Display names": [protocol/]host:display[.screen].
_X_DISPLAY: Final = re.compile(r"(?:(?P<protocol>\w+)/)?(?P<host>.*):(?P<number>\d{1,5})(?:\.\d+)?")
_PLUGINS: Final = {"xcb": "libqxcb.so", "wayland": "libqwayland-generic.so", "wayland-egl": "libqwayland-egl.so"}


def find_problem(environment: Mapping[str, str], plugins: Path, platform: str = sys.platform) -> str:
    """Return why Qt will show nothing, for people; empty where it will, or where only Qt can tell.

    Args:
        environment: this process's.
        plugins: Qt's folder of them.
        platform: the system, as `sys.platform` names it; displays are Linux's.
    """
    if platform != "linux":
        return ""
    unloadable, unanswered = [], []
    for way in _ways(environment):
        if error := _load_error(way, plugins):
            unloadable.append(error)
        elif place := _unanswered_place(way, environment):
            unanswered.append(place)
        else:
            return ""
    if unloadable:
        return f"Qt cannot be loaded ({'; '.join(unloadable)}); {installing_qt(unloadable[0])}"
    if unanswered:
        return f"no display: nobody answers at {' or '.join(unanswered)}"
    return "no display: neither WAYLAND_DISPLAY nor DISPLAY is set; start it on a desktop"


def _ways(environment: Mapping[str, str]) -> list[str]:
    """Return the platforms that Qt tries: those it is told, else those of which the session speaks."""
    told = environment.get("QT_QPA_PLATFORM", "")
    if told:
        return [way.partition(":")[0].lower() for way in told.split(";") if way]
    is_wayland = environment.get("XDG_SESSION_TYPE") == "wayland" or "WAYLAND_DISPLAY" in environment
    return [*(["wayland"] if is_wayland else []), *(["xcb"] if environment.get("DISPLAY") else [])]


def _load_error(way: str, plugins: Path) -> str:
    """Return why the platform's plugin cannot be loaded; it names the first library that is missing."""
    plugin = plugins / "platforms" / _PLUGINS.get(way, "")
    if not plugin.is_file():
        return ""
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        return str(error)
    return ""


def _unanswered_place(way: str, environment: Mapping[str, str]) -> str:
    """Return the variable that says where the display should be, with its value, where it is not there."""
    addresses: list[Address]
    if way == "xcb":
        name, value = "DISPLAY", environment.get("DISPLAY", "")
        addresses = x_addresses(value)
    elif way.startswith("wayland") and "WAYLAND_SOCKET" not in environment:
        name, value = "WAYLAND_DISPLAY", environment.get("WAYLAND_DISPLAY") or "wayland-0"
        # A name that is a path already stands for itself.
        addresses = [str(Path(environment.get("XDG_RUNTIME_DIR", "/")) / value)]
    else:
        return ""
    return "" if _is_answered(addresses) else f"{name}={value!r}"


def x_addresses(display: str) -> list[Address]:
    """Return where the X server of `display` listens, in the order in which it is tried; none for what is no name."""
    found = _X_DISPLAY.fullmatch(display)
    if found is None:
        return []
    host, number = found["host"], int(found["number"])
    if host not in {"", "unix"} and found["protocol"] != "unix":
        return [(host.strip("[]"), X_PORT + number)]
    path = f"{X_FOLDER}/X{number}"
    return [f"\0{path}", path]


def _is_answered(addresses: list[Address]) -> bool:
    """Tell whether one of the addresses takes a connection in time, the look-up of its name included."""
    answers: list[bool] = []
    # Nothing ends a look-up; the thread that waits for it keeps nobody from leaving.
    attempt = threading.Thread(target=lambda: answers.append(any(map(_connects, addresses))), daemon=True)
    attempt.start()
    attempt.join(CONNECT_S)
    return answers == [True]


def _connects(address: Address) -> bool:
    try:
        if isinstance(address, tuple):
            socket.create_connection(address, CONNECT_S).close()
        else:
            with socket.socket(socket.AF_UNIX) as end:
                end.settimeout(CONNECT_S)
                end.connect(address)
    except BlockingIOError:
        return True  # somebody listens, whose queue is full
    except (OSError, OverflowError, UnicodeError):
        return False
    return True
