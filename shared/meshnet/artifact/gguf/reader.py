"""Reads the primitive values of a GGUF file.

Invariants: never reads beyond the file or the header limit, never takes memory for a length that was not checked.
Source: ggml's docs/gguf.md.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from meshnet.artifact.gguf.limits import (
    MAX_ARRAY_ELEMENTS,
    MAX_HEADER_BYTES,
    MAX_STRING_BYTES,
    refused,
    require,
)

if TYPE_CHECKING:
    from typing import BinaryIO

Scalar: TypeAlias = int | float | bool | str
MetadataValue: TypeAlias = Scalar | tuple[Scalar, ...]


class ValueType(IntEnum):
    """Type tag of a metadata value."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


_FORMATS: Final[dict[ValueType, str]] = {
    ValueType.UINT8: "B",
    ValueType.INT8: "b",
    ValueType.UINT16: "H",
    ValueType.INT16: "h",
    ValueType.UINT32: "I",
    ValueType.INT32: "i",
    ValueType.FLOAT32: "f",
    ValueType.BOOL: "?",
    ValueType.UINT64: "Q",
    ValueType.INT64: "q",
    ValueType.FLOAT64: "d",
}


class HeaderReader:
    """A bounded reader over one open file. Not thread-safe; does not own the file."""

    def __init__(self, file: BinaryIO, file_bytes: int) -> None:
        self._file = file
        self.file_bytes = file_bytes
        self._end_bytes = min(file_bytes, MAX_HEADER_BYTES)
        self._is_whole = file_bytes <= MAX_HEADER_BYTES
        self.offset_bytes = 0
        self._elements_left = MAX_ARRAY_ELEMENTS

    def take(self, length_bytes: int) -> bytes:
        """Read exactly `length_bytes`.

        Raises:
            ArtifactError: `truncated`, or `limit_exceeded` where the file goes on beyond the header limit.
        """
        code = "truncated" if self._is_whole else "limit_exceeded"
        require(length_bytes <= self._end_bytes - self.offset_bytes, code, "the header ends early")
        data = self._file.read(length_bytes)
        require(len(data) == length_bytes, "truncated", "the file became shorter while it was read")
        self.offset_bytes += length_bytes
        return data

    def u32(self) -> int:
        """An unsigned 32-bit number."""
        return int(struct.unpack("<I", self.take(4))[0])

    def u64(self) -> int:
        """An unsigned 64-bit number."""
        return int(struct.unpack("<Q", self.take(8))[0])

    def string(self, limit_bytes: int = MAX_STRING_BYTES) -> str:
        """A string; bytes that are no UTF-8 are kept as surrogates, since some vocabularies hold such.

        Raises:
            ArtifactError: `limit_exceeded` or `truncated`.
        """
        length_bytes = self.u64()
        require(length_bytes <= limit_bytes, "limit_exceeded", f"a string of {length_bytes} bytes")
        return self.take(length_bytes).decode("utf-8", errors="surrogateescape")

    def value(self) -> MetadataValue:
        """A tagged metadata value; arrays of arrays are refused.

        Raises:
            ArtifactError: `bad_metadata`, `limit_exceeded` or `truncated`.
        """
        tag = self._tag()
        if tag is not ValueType.ARRAY:
            return self._scalars(tag, 1)[0]
        element = self._tag()
        require(element is not ValueType.ARRAY, "bad_metadata", "an array of arrays")
        count = self.u64()
        require(count <= self._elements_left, "limit_exceeded", f"an array of {count} values")
        self._elements_left -= count
        return self._scalars(element, count)

    def _tag(self) -> ValueType:
        tag = self.u32()
        try:
            return ValueType(tag)
        except ValueError:
            raise refused("bad_metadata", f"value type {tag}") from None

    def _scalars(self, tag: ValueType, count: int) -> tuple[Scalar, ...]:
        if tag is ValueType.STRING:
            return tuple(self.string() for _ in range(count))
        packed = struct.Struct(f"<{count}{_FORMATS[tag]}")
        return packed.unpack(self.take(packed.size))
