"""Files that only matter while this machine runs: the workers' sockets, and the turn that all of them share.

Invariants: directories are 0700 and this user's own; a socket's path fits what the kernel takes.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from node_app.system.state_files import StateError, prepare_directory

# sockaddr_un.sun_path holds 108 bytes on Linux, 104 elsewhere, with a terminator.
SOCKET_PATH_BYTES_MAX: Final = 103
SOCKET_NAME: Final = "worker.sock"
TURN_NAME: Final = "compute.turn"
LINKS_NAME: Final = "links"
LINK_NAME_CHARACTERS: Final = 37  # that the worker adds: 32 digits of its fingerprint and a suffix
FRESH_PREFIX: Final = "run-"
FRESH_CHARACTERS: Final = 8  # that tempfile adds


def shared_directory() -> Path:
    """Return this user's directory for what all nodes of the machine share.

    Raises:
        StateError: it is somebody else's.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    user = os.getuid() if hasattr(os, "getuid") else 0
    base = Path(runtime) / "meshnet" if runtime else Path(tempfile.gettempdir()) / f"meshnet-{user}"
    directory = prepare_directory(base)
    if directory.is_symlink() or (hasattr(os, "getuid") and directory.stat().st_uid != user):
        raise StateError("state_directory", "No runtime directory", f"{directory} is not this user's own")
    return directory


def compute_turn_path() -> Path:
    """Return the file of the machine-wide compute turn. Source: docs/architecture.md, One machine."""
    return shared_directory() / TURN_NAME


def local_links_directory() -> Path | None:
    """Return where this user's workers meet without the network; None where no socket's path would fit.

    Raises:
        StateError: it is somebody else's.
    """
    directory = prepare_directory(shared_directory() / LINKS_NAME)
    return directory if _fits(directory / ("x" * LINK_NAME_CHARACTERS)) else None


def socket_path(state_dir: Path) -> Path:
    """Return where the worker listens: in the state directory, or in a fresh short one where that is too long.

    Raises:
        StateError: that one's path is too long as well.
    """
    path = prepare_directory(state_dir / "run") / SOCKET_NAME
    if _fits(path):
        return path
    shared = shared_directory()
    if not _fits(shared / f"{FRESH_PREFIX}{'x' * FRESH_CHARACTERS}" / SOCKET_NAME):
        message = f"{shared} is too long for a socket's path; name a shorter folder in TMPDIR, or a shorter --state-dir"
        raise StateError("state_directory", "Path too long", message)
    return Path(tempfile.mkdtemp(prefix=FRESH_PREFIX, dir=shared)) / SOCKET_NAME


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX
