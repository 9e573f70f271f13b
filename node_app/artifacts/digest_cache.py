"""Keeps the digests of model files, so that a node does not read the whole files again at every start.

Invariants: a file counts as unchanged while its path, size, modification time and inode are the same. If the cache is
damaged, the files are read again. Hashing blocks, so the agent runs it in a thread.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf import combined_digest, file_digest
from meshnet.errors import ArtifactError
from node_app.system.state_files import StateError, read_bounded, write_private

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

CACHE_FILE: Final = "digests.json"
CACHE_LIMIT_BYTES: Final = 4 * 1024 * 1024
ENTRIES_MAX: Final = 4096
DIGEST_BYTES: Final = 32


class DigestCache:
    """Computes the digests of files and keeps them in the state directory. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / CACHE_FILE

    def artifact_digest(self, paths: Sequence[Path]) -> bytes:
        """Return the SHA-256 over the digests of a model's files. Files with a known digest are not read. Blocking.

        Raises:
            ArtifactError: a file cannot be read, or changed while it was read.
        """
        known = self._read()
        try:
            identities = [_identity(path) for path in paths]
            files = zip(identities, paths, strict=True)
            digests = {identity: known.get(identity) or file_digest(path) for identity, path in files}
            after = [_identity(path) for path in paths]
        except OSError as error:
            raise ArtifactError("unreadable", "File cannot be read", str(error)) from error
        if after != identities:
            raise changed()
        if any(identity not in known for identity in digests):
            self._write({**known, **digests})
        return combined_digest(digests[identity] for identity in identities)

    def _read(self) -> dict[str, bytes]:
        try:
            value = json.loads(read_bounded(self._path, CACHE_LIMIT_BYTES) or b"{}")
            entries = {str(identity): bytes.fromhex(digest) for identity, digest in value.items()}
        except (StateError, ValueError, TypeError, AttributeError) as error:
            logger.warning("the cache of digests is damaged; the model is hashed again (%s)", type(error).__name__)
            return {}
        return {identity: digest for identity, digest in entries.items() if len(digest) == DIGEST_BYTES}

    def _write(self, entries: dict[str, bytes]) -> None:
        newest = list(entries.items())[-ENTRIES_MAX:]
        text = json.dumps({identity: digest.hex() for identity, digest in newest}, indent=1)
        write_private(self._path, text.encode())


def changed() -> ArtifactError:
    """Return the error for a model's file that changed while it was read, so that its digest is not known."""
    message = "the model's file changed while it was read; the node reads it again"
    return ArtifactError("changed", "File changed", message)


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}|{status.st_ino}"
