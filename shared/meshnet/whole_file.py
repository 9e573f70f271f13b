"""Files that are whole or absent, whatever happens while they are written.

Invariant: a file is replaced by rename after its bytes are on disk, so a crash leaves the old or the new one; a failed
write leaves nothing beside it.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

# For everybody whom the process' umask lets.
COMMON_FILE_MODE: Final = 0o666


def write_whole(path: Path, data: bytes, mode: int = COMMON_FILE_MODE) -> None:
    """Replace `path` by `data`, atomically and durably. Blocking.

    Args:
        path: in a folder that exists.
        data: all of it.
        mode: permissions, less the umask.

    Raises:
        OSError: it cannot be written.
    """
    draft = path.with_name(f".draft-{secrets.token_hex(8)}")  # a name of its own may be too long with more behind it
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
