"""How many files and connections this process and its worker may hold: as many as the system lets this user have.

Who may dial a worker's link port is anybody, and gRPC stops listening for good once a connection finds no descriptor
left: with the usual 1024 an unknown peer needs a thousand idle connections for that. Source: grpc 1.51,
src/core/lib/iomgr/tcp_server_posix.cc, on_read.
"""

from __future__ import annotations

import sys
from typing import Final

# More than one address can hold connections to one port.
WANTED: Final = 65536


def raise_open_files_limit() -> int | None:
    """Raise the soft limit, for this process and its children; return it, None where the system has none."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
