"""Writes a copy of a model's metadata without its weights, which is enough for tokenising.

Invariant: the target file is complete, or it is still as it was before (possibly absent).
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from meshnet.artifact.gguf.limits import refused
from meshnet.artifact.gguf.part import MAGIC

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.artifact.gguf.header import GgufHeader
    from meshnet.artifact.gguf.part import KeyExtent


def write_vocab_only(header: GgufHeader, source: Path, target: Path) -> None:
    """Write a GGUF file with the metadata of `source` (the header's first part) and no tensors.

    The entries that say how the file was split are left out, since the copy has one part.

    Raises:
        ArtifactError: `truncated` if `source` is shorter than at the time its header was read.
        OSError: the target cannot be written.
    """
    part = header.parts[0]
    kept = [extent for extent in part.key_extents if not extent.key.startswith("split.")]
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with source.open("rb") as reading, temporary.open("xb") as writing:
            writing.write(MAGIC + struct.pack("<IQQ", part.version, 0, len(kept)))
            for extent in kept:
                reading.seek(extent.begin_bytes)
                writing.write(_exactly(reading.read(extent.end_bytes - extent.begin_bytes), extent))
            writing.flush()
            os.fsync(writing.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _exactly(data: bytes, extent: KeyExtent) -> bytes:
    if len(data) != extent.end_bytes - extent.begin_bytes:
        raise refused("truncated", "the file became shorter while it was copied")
    return data
