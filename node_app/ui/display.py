"""Finds out, before Qt is started, whether Qt will find a display. Without one, Qt aborts the process.

Invariants: imports no Qt. Only a failure that Qt would meet as well is a problem; platforms that need no display
(`offscreen`) or are unknown here are left to Qt. Trying one platform takes CONNECT_S at most.
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

# Path of a Unix socket (if it begins with NUL, an abstract name of Linux), or host and port.
Address: TypeAlias = str | tuple[str, int]

CONNECT_S: Final = 2.0
X_FOLDER: Final = "/tmp/.X11-unix"  # noqa: S108 - every X server of this machine listens there
X_PORT: Final = 6000
# Source: X(7), "Display names": [protocol/]host:display[.screen].
_X_DISPLAY: Final = re.compile(r"(?:(?P<protocol>\w+)/)?(?P<host>.*):(?P<number>\d{1,5})(?:\.\d+)?")
_PLUGINS: Final = {"xcb": "libqxcb.so", "wayland": "libqwayland-generic.so", "wayland-egl": "libqwayland-egl.so"}


def find_problem(environment: Mapping[str, str], plugins: Path, platform: str = sys.platform) -> str:
    """Return a text for people that says why Qt cannot show a window; empty if it can, or if only Qt can tell.

    Args:
        environment: this process's environment variables.
        plugins: folder of Qt's plugins.
        platform: value of `sys.platform`; anything but "linux" is left to Qt.
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
        return f"no display: no server answers at {' or '.join(unanswered)}"
    return "no display: neither WAYLAND_DISPLAY nor DISPLAY is set; start it on a desktop"


def _ways(environment: Mapping[str, str]) -> list[str]:
    """Return the platforms that Qt tries: those in QT_QPA_PLATFORM if it is set, else those of the desktop session."""
    told = environment.get("QT_QPA_PLATFORM", "")
    if told:
        return [way.partition(":")[0].lower() for way in told.split(";") if way]
    is_wayland = environment.get("XDG_SESSION_TYPE") == "wayland" or "WAYLAND_DISPLAY" in environment
    return [*(["wayland"] if is_wayland else []), *(["xcb"] if environment.get("DISPLAY") else [])]


def _load_error(way: str, plugins: Path) -> str:
    """Return why the plugin of Qt's platform `way` cannot be loaded, with the missing library; empty if it can."""
    plugin = plugins / "platforms" / _PLUGINS.get(way, "")
    if not plugin.is_file():
        return ""
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        return str(error)
    return ""


def _unanswered_place(way: str, environment: Mapping[str, str]) -> str:
    """Return NAME=VALUE of the variable that names the platform's display if no server answers there, else empty."""
    addresses: list[Address]
    if way == "xcb":
        name, value = "DISPLAY", environment.get("DISPLAY", "")
        addresses = x_addresses(value)
    elif way.startswith("wayland") and "WAYLAND_SOCKET" not in environment:
        name, value = "WAYLAND_DISPLAY", environment.get("WAYLAND_DISPLAY") or "wayland-0"
        # If the value is an absolute path, `/` drops the folder before it.
        addresses = [str(Path(environment.get("XDG_RUNTIME_DIR", "/")) / value)]
    else:
        return ""
    return "" if _is_answered(addresses) else f"{name}={value!r}"


def x_addresses(display: str) -> list[Address]:
    """Return the addresses of the X server that `display` names, in the order to try them; empty if it names none."""
    found = _X_DISPLAY.fullmatch(display)
    if found is None:
        return []
    host, number = found["host"], int(found["number"])
    if host not in {"", "unix"} and found["protocol"] != "unix":
        return [(host.strip("[]"), X_PORT + number)]
    path = f"{X_FOLDER}/X{number}"
    return [f"\0{path}", path]


def _is_answered(addresses: list[Address]) -> bool:
    """Return whether a server accepts a connection at any of the addresses within CONNECT_S, name look-ups included."""
    answers: list[bool] = []
    # A name look-up cannot be cancelled, so a daemon thread waits for it and does not keep the process alive.
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
        return True  # a server listens, but its queue is full
    except (OSError, OverflowError, UnicodeError):
        return False
    return True
