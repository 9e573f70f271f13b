"""What an artifact is called by: one digest over the digests of its files.

Invariant: equal files in equal order, and nothing else, give equal digests; names and places do not count.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def file_digest(path: Path) -> bytes:
    """SHA-256 of one file; reads all of it.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def combined_digest(file_digests: Iterable[bytes]) -> bytes:
    """SHA-256 over the files' digests in order."""
    return hashlib.sha256(b"".join(file_digests)).digest()


def artifact_digest(paths: Iterable[Path]) -> bytes:
    """The artifact's digest, from its files in order (`GgufHeader.paths`).

    Raises:
        OSError: a file cannot be read.
    """
    return combined_digest(file_digest(path) for path in paths)
