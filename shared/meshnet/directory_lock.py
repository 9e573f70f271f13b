"""One process at a time in a directory.

Invariants: the lock ends with the process, however that ends; no child inherits it. Where there is no `flock` (outside
POSIX systems) nothing is locked.
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
    """Keep a directory that exists for this process while the context lasts.

    Raises:
        MeshnetError: `in_use`; another process, or another context of this one, holds it.
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
