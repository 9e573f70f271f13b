"""Raises the limit of open files for this process and its worker to 65,536, or as far as the system allows.

Anybody may dial a worker's link port, and gRPC stops listening for good if a new connection finds no file descriptor
left: with the usual 1024 an unknown peer needs a thousand idle connections for that. Source: grpc 1.51,
src/core/lib/iomgr/tcp_server_posix.cc, on_read.
"""

from __future__ import annotations

import sys
from typing import Final

# One peer address can hold fewer connections to one port, since its port numbers end at 65,535.
WANTED: Final = 65536


def raise_open_files_limit() -> int | None:
    """Raise the soft limit for this process and its children, and return it; None if the system has no such limit."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
