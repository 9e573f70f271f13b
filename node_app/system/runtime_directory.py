"""Paths of files that are needed only until this machine restarts: the workers' sockets and their compute turn.

Invariants: directories are 0700 and owned by this user; a socket's path is no longer than the kernel accepts.
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
LINK_NAME_CHARACTERS: Final = 37  # the worker's file name there: 32 digits of its fingerprint and a suffix
FRESH_PREFIX: Final = "run-"
FRESH_CHARACTERS: Final = 8  # tempfile adds them to the prefix


def shared_directory() -> Path:
    """Return the directory of the files that all of this user's nodes on the machine share; create it if it is missing.

    Raises:
        StateError: it belongs to another user, is a symbolic link, or cannot be created.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    user = os.getuid() if hasattr(os, "getuid") else 0
    base = Path(runtime) / "meshnet" if runtime else Path(tempfile.gettempdir()) / f"meshnet-{user}"
    directory = prepare_directory(base)
    if directory.is_symlink() or (hasattr(os, "getuid") and directory.stat().st_uid != user):
        variable = "XDG_RUNTIME_DIR" if runtime else "TMPDIR"
        message = f"{directory} is a link or belongs to another user; set {variable} to a folder of your own"
        raise StateError("state_directory", "No runtime directory", message)
    return directory


def compute_turn_path() -> Path:
    """Return the path of the lock file that lets one worker of this user compute at a time.

    Source: docs/architecture.md, One machine.
    """
    return shared_directory() / TURN_NAME


def local_links_directory() -> Path | None:
    """Create and return the directory in which this user's workers listen for each other.

    Returns None if the path of a socket in it would be too long; the workers then use the network.

    Raises:
        StateError: another user owns it, or it cannot be created.
    """
    directory = prepare_directory(shared_directory() / LINKS_NAME)
    return directory if _fits(directory / ("x" * LINK_NAME_CHARACTERS)) else None


def socket_path(state_dir: Path) -> Path:
    """Return the path of the socket on which the worker listens for its agent.

    The socket lies in the state directory or, if its path would be too long there, in a new directory.

    Raises:
        StateError: the path in the new directory is too long as well, or a directory cannot be created.
    """
    path = prepare_directory(state_dir / "run") / SOCKET_NAME
    if _fits(path):
        return path
    shared = shared_directory()
    if not _fits(shared / f"{FRESH_PREFIX}{'x' * FRESH_CHARACTERS}" / SOCKET_NAME):
        message = f"{shared} is too long for a socket's path; set TMPDIR or --state-dir to a shorter folder"
        raise StateError("state_directory", "Path too long", message)
    return Path(tempfile.mkdtemp(prefix=FRESH_PREFIX, dir=shared)) / SOCKET_NAME


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX
