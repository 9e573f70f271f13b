"""Secrets that the site draws once and keeps in its data directory.

Invariants: only the owner can read a secret's file, and the file is never partly written. If two processes start at
once, both use the same secret.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def read_or_create(path: Path, draw: Callable[[], bytes]) -> bytes:
    """Return the secret in `path`; if there is no such file, draw a secret and store it.

    Raises:
        OSError: the folder cannot be written or the file cannot be read.
    """
    if path.exists():
        return path.read_bytes()
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(draw())
            file.flush()
            os.fsync(file.fileno())
        # If another process was first, the link fails and that process's secret is used.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    return path.read_bytes()
