"""The digest that identifies an artifact (a model's files): SHA-256 over the digests of the files.

Invariant: two artifacts have equal digests only if their files are equal and in the same order; names and folders do
not count.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def file_digest(path: Path) -> bytes:
    """Return the SHA-256 of one file. The whole file is read.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def combined_digest(file_digests: Iterable[bytes]) -> bytes:
    """Return the SHA-256 of the files' digests, concatenated in order."""
    return hashlib.sha256(b"".join(file_digests)).digest()


def artifact_digest(paths: Iterable[Path]) -> bytes:
    """Return the artifact's digest, given its files in order (`GgufHeader.paths`).

    Raises:
        OSError: a file cannot be read.
    """
    return combined_digest(file_digest(path) for path in paths)
