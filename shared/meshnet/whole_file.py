"""Writes files that are whole or absent, even if the machine crashes meanwhile.

Invariant: a file is replaced by a rename after its bytes are on disk, so a crash leaves the old file or the new one. If
writing fails, no temporary file is left behind.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

# Readable and writable by everybody, less the process's umask.
COMMON_FILE_MODE: Final = 0o666


def write_whole(path: Path, data: bytes, mode: int = COMMON_FILE_MODE) -> None:
    """Replace the content of a file, or create it, atomically and durably. Blocking.

    Args:
        path: a file in a folder that exists.
        data: the whole content.
        mode: permissions of a new file, less the umask.

    Raises:
        OSError: the file cannot be written.
    """
    draft = path.with_name(f".draft-{secrets.token_hex(8)}")  # a longer form of the file's name might be too long
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    if os.name != "posix":
        return  # Windows keeps the rename with the file
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
