"""Reserves a directory for one process at a time.

Invariants: the lock ends with the process, even if it is killed, and no child inherits it. If the system has no `flock`
(outside POSIX), nothing is locked.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if os.name == "posix":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from meshnet.errors import MeshnetError

LOCK_NAME: Final = "lock"
_PRIVATE_FILE_MODE: Final = 0o600


@contextmanager
def hold_directory(directory: Path, in_use: MeshnetError) -> Iterator[None]:
    """Hold an existing directory for this process as long as the context lasts.

    Raises:
        MeshnetError: `in_use`, if another process, or another context of this one, holds the directory.
    """
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, _PRIVATE_FILE_MODE)
    try:
        if os.name == "posix":
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise in_use from error
        yield
    finally:
        os.close(descriptor)
