"""Reads the primitive values of a GGUF file.

Invariants: the reader never goes beyond the end of the file or the limit for headers, and never allocates memory for a
length that was not checked. Source: ggml's docs/gguf.md.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from meshnet.artifact.gguf.limits import (
    MAX_ARRAY_ELEMENTS,
    MAX_HEADER_BYTES,
    MAX_STRING_BYTES,
    MAX_TENSORS,
    MAX_VALUE_BYTES,
    refused,
    require,
)

if TYPE_CHECKING:
    from typing import BinaryIO

Scalar: TypeAlias = int | float | bool | str
MetadataValue: TypeAlias = Scalar | tuple[Scalar, ...]


class ValueType(IntEnum):
    """Type tag of a metadata value, as it is stored in the file."""

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


# Memory of one value in a tuple: its slot, and the largest number object that the slot can point to.
_PLACE_BYTES: Final = 8
_NUMBER_BYTES: Final = 40
_TOO_MANY_VALUES: Final = f"the metadata takes more than {MAX_VALUE_BYTES} bytes in memory"


@dataclass(slots=True)
class HeaderRoom:
    """The limits that remain for the headers of all parts of a model. Reading subtracts from them.

    Attributes:
        elements: array elements in the metadata.
        value_bytes: memory that metadata and names take once they are read.
    """

    header_bytes: int = MAX_HEADER_BYTES
    tensors: int = MAX_TENSORS
    elements: int = MAX_ARRAY_ELEMENTS
    value_bytes: int = MAX_VALUE_BYTES

    def take_tensors(self, count: int) -> None:
        """Reserve `count` tensors before their entries are read.

        Raises:
            ArtifactError: `limit_exceeded` if fewer are left.
        """
        require(count <= self.tensors, "limit_exceeded", f"{count} tensors are too many")
        self.tensors -= count

    def take_elements(self, count: int) -> None:
        """Reserve `count` array elements before they are read.

        Raises:
            ArtifactError: `limit_exceeded` if fewer are left.
        """
        require(count <= self.elements, "limit_exceeded", f"an array of {count} values is too large")
        self.elements -= count

    def take_value_bytes(self, size_bytes: int) -> None:
        """Reserve `size_bytes` of memory for values that are read.

        Raises:
            ArtifactError: `limit_exceeded` if less is left.
        """
        require(size_bytes <= self.value_bytes, "limit_exceeded", _TOO_MANY_VALUES)
        self.value_bytes -= size_bytes


class HeaderReader:
    """Reads the values of one file's header in order, within its limits. It is not thread-safe.

    The caller opens and closes the file.

    Attributes:
        room: the limits that all parts of the model share.
        offset_bytes: number of bytes that were read so far.
    """

    def __init__(self, file: BinaryIO, file_bytes: int, room: HeaderRoom) -> None:
        self._file = file
        self.file_bytes = file_bytes
        self.room = room
        self._end_bytes = min(file_bytes, room.header_bytes)
        self._is_whole = file_bytes <= room.header_bytes
        self.offset_bytes = 0

    def take(self, length_bytes: int) -> bytes:
        """Read exactly `length_bytes`.

        Raises:
            ArtifactError: `truncated` if the file ends earlier; `limit_exceeded` if the headers are too long.
        """
        code = "truncated" if self._is_whole else "limit_exceeded"
        require(length_bytes <= self._end_bytes - self.offset_bytes, code, "the header ends early")
        data = self._file.read(length_bytes)
        require(len(data) == length_bytes, "truncated", "the file became shorter while it was read")
        self.offset_bytes += length_bytes
        return data

    def end(self) -> None:
        """End the header: subtract its length from `room`, which the other parts of the model share."""
        self.room.header_bytes -= self.offset_bytes

    def u32(self) -> int:
        """Read an unsigned 32-bit little-endian number."""
        return int(struct.unpack("<I", self.take(4))[0])

    def u64(self) -> int:
        """Read an unsigned 64-bit little-endian number."""
        return int(struct.unpack("<Q", self.take(8))[0])

    def string(self, limit_bytes: int = MAX_STRING_BYTES) -> str:
        """Read a string. Bytes that are not UTF-8 are kept as surrogates, since some vocabularies hold such bytes.

        Raises:
            ArtifactError: `limit_exceeded` if the string is too long; `truncated` if the file ends earlier.
        """
        length_bytes = self.u64()
        require(length_bytes <= limit_bytes, "limit_exceeded", f"a string of {length_bytes} bytes is too long")
        text = self.take(length_bytes).decode("utf-8", errors="surrogateescape")
        self.room.take_value_bytes(sys.getsizeof(text) + _PLACE_BYTES)
        return text

    def value(self) -> MetadataValue:
        """Read the type tag of a metadata value, then the value.

        Raises:
            ArtifactError: `bad_metadata` if the tag is unknown or the value is an array of arrays; `limit_exceeded` or
                `truncated` as in `take`.
        """
        tag = self._tag()
        if tag is not ValueType.ARRAY:
            return self._scalars(tag, 1)[0]
        element = self._tag()
        require(element is not ValueType.ARRAY, "bad_metadata", "an array of arrays is not supported")
        count = self.u64()
        self.room.take_elements(count)
        return self._scalars(element, count)

    def _tag(self) -> ValueType:
        tag = self.u32()
        try:
            return ValueType(tag)
        except ValueError:
            raise refused("bad_metadata", f"unknown value type {tag}") from None

    def _scalars(self, tag: ValueType, count: int) -> tuple[Scalar, ...]:
        if tag is ValueType.STRING:
            return tuple(self.string() for _ in range(count))
        packed = struct.Struct(f"<{count}{_FORMATS[tag]}")
        self.room.take_value_bytes(count * (_PLACE_BYTES + _NUMBER_BYTES))
        return packed.unpack(self.take(packed.size))
