"""Reads and writes the private files of a state directory, and locks the directory for one agent at a time.

Invariants: files are 0600 and directories 0700. A file is whole or absent, even after a crash. The operating system
holds the lock, so it is free again if its holder crashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet import directory_lock
from meshnet.errors import MeshnetError
from meshnet.whole_file import write_whole

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

PRIVATE_FILE_MODE = 0o600
PRIVATE_DIRECTORY_MODE = 0o700


class StateError(MeshnetError):
    """The state directory, or a file in it, cannot be used."""


def prepare_directory(directory: Path) -> Path:
    """Create `directory` for this user alone and return it. If it exists, take other users' access to it away.

    Raises:
        StateError: the directory cannot be created, or another user owns it.
    """
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
        directory.chmod(PRIVATE_DIRECTORY_MODE)
    except OSError as error:
        reason = error.strerror or "cannot be used"
        raise StateError("state_directory", "No state directory", f"{directory}: {reason}") from error
    return directory


def write_private(path: Path, data: bytes) -> None:
    """Write `data` to the file at `path`, atomically and durably; only this user can read it."""
    write_whole(path, data, PRIVATE_FILE_MODE)


def read_bounded(path: Path, limit_bytes: int) -> bytes | None:
    """Return all bytes of the file at `path`; None if there is no such file.

    Raises:
        StateError: the file is larger than `limit_bytes` or cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError("state_unreadable", "State not readable", f"{path}: {error.strerror}") from error
    if len(data) > limit_bytes:
        raise StateError("state_damaged", "State damaged", f"{path} is larger than {limit_bytes} bytes")
    return data


def hold_directory(directory: Path) -> AbstractContextManager[None]:
    """Lock `directory` for this process while the context lasts.

    Raises:
        StateError: another agent holds the lock.
    """
    message = f"another node already runs with {directory}; give each node its own --state-dir"
    return directory_lock.hold_directory(directory, StateError("state_in_use", "State directory in use", message))
