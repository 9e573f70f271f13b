"""Finds the bytes of tensors that a sparse file does not hold.

Invariant: the file system is asked for holes; no data is read. Reading a hole gives zeros and no error. If a tool has
turned a tensor's own zeros into a hole while it copied the file, those bytes count as missing too.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf.limits import refused
from meshnet.printable import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from meshnet.artifact.gguf.header import GgufHeader
    from meshnet.artifact.gguf.part import GgufTensor

SHOWN_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class MissingRange:
    """Bytes `[begin_bytes, end_bytes)` of a file that belong to a tensor but are not stored."""

    file_name: str
    tensor_name: str
    begin_bytes: int
    end_bytes: int

    def __str__(self) -> str:
        tensor, file = printable(self.tensor_name), printable(self.file_name)
        return f"{tensor} (bytes {self.begin_bytes} to {self.end_bytes} of {file})"


def missing_ranges(header: GgufHeader, names: Collection[str]) -> list[MissingRange]:
    """Return the holes in the named tensors, in file order; none if the operating system cannot report holes.

    Raises:
        OSError: a file cannot be opened.
    """
    if not hasattr(os, "SEEK_HOLE"):
        return []
    found = []
    for part in header.parts:
        with part.path.open("rb") as file:
            for tensor in part.tensors:
                if tensor.name in names:
                    holes = _holes(file.fileno(), tensor)
                    found += [MissingRange(part.path.name, tensor.name, begin, end) for begin, end in holes]
    return found


def refuse_missing(header: GgufHeader, names: Collection[str]) -> None:
    """Refuse a sparse file that lacks bytes of the named tensors, since its answers would be garbage.

    Raises:
        ArtifactError: `missing_range` if bytes are missing; the message names the first few ranges.
        OSError: a file cannot be opened.
    """
    missing = missing_ranges(header, names)
    if missing:
        shown = ", ".join(map(str, missing[:SHOWN_MAX]))
        more = f" and {len(missing) - SHOWN_MAX} more" if len(missing) > SHOWN_MAX else ""
        raise refused("missing_range", f"the file is sparse and lacks {shown}{more}; fetch it again")


def _holes(descriptor: int, tensor: GgufTensor) -> Iterator[tuple[int, int]]:
    at, end = tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes
    while at < end:
        hole = os.lseek(descriptor, at, os.SEEK_HOLE)  # the end of the file counts as a hole
        if hole >= end:
            return
        at = min(_next_data(descriptor, hole), end)
        yield hole, at


def _next_data(descriptor: int, at: int) -> int:
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return os.fstat(descriptor).st_size  # there is no data after `at`, only a hole
