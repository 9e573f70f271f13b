"""Secrets that the site draws once and keeps in its data directory.

Invariant: a secret is readable by its owner only, appears whole or not at all, and of two processes that start at once
both end up with the same one.
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
    """Return the secret in `path`, drawing and storing it the first time.

    Raises:
        OSError: the folder cannot be written, or the file cannot be read.
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
        # A link fails where another process was first; then its secret is the one.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    return path.read_bytes()
