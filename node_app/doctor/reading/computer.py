"""Reads limits, disk space and ports of this machine."""

from __future__ import annotations

import os
import shutil
import socket
from typing import TYPE_CHECKING

if os.name == "posix":
    import resource

if TYPE_CHECKING:
    from pathlib import Path


def read_descriptor_limit() -> int | None:
    """Return how many files and sockets this process may have open; None if there is no limit."""
    if os.name != "posix":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def nearest_existing(path: Path) -> Path:
    """Return `path`, or the nearest folder above it that exists."""
    return next((folder for folder in (path, *path.parents) if folder.exists()), path)


def read_free_bytes(folder: Path) -> int:
    """Return the free bytes on the file system that holds `folder`."""
    return shutil.disk_usage(folder).free


def try_listening(address: str) -> str:
    """Listen at `host:port` for a moment. Return an empty string if that works, else the reason."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as listener:
            if os.name == "posix":
                # Servers set it too: without it, a port whose last user has just ended counts as in use.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(1)
    except OSError as error:
        return error.strerror or str(error)
    return ""
