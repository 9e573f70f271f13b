"""Writes GGUF headers: metadata and places of tensors, with a hole where the weights would be.

Invariant: the file has its full length, so that every tensor lies inside it, and takes no more room on disk than its
header. Source: ggml's docs/gguf.md.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

from meshnet.artifact.gguf.reader import ValueType
from meshnet.artifact.gguf.tensor_types import TENSOR_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

Value: TypeAlias = "str | bool | int | float | Sequence[str] | Sequence[int] | Sequence[float]"

ALIGNMENT_BYTES: Final = 32
VERSION: Final = 3
_NUMBERS_BY_NAME: Final = {kind.name: number for number, kind in TENSOR_TYPES.items()}


@dataclass(frozen=True, slots=True)
class HeaderTensor:
    """A tensor without data. `shape` is in ggml's order, the contiguous dimension first."""

    name: str
    shape: tuple[int, ...]
    type: str

    @property
    def size_bytes(self) -> int:
        """What the tensor takes in the file, without padding."""
        kind = TENSOR_TYPES[_NUMBERS_BY_NAME[self.type]]
        return math.prod(self.shape) // kind.block_elements * kind.block_bytes


def write_header(
    path: Path, metadata: Mapping[str, Value], tensors: Iterable[HeaderTensor], *, is_cut: bool = False
) -> Path:
    """Write a file of full length, or, where `is_cut`, one that ends with its header."""
    placed = list(tensors)
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", VERSION, len(placed), len(metadata)))
        for key, value in metadata.items():
            file.write(_string(key) + _value(value))
        offset_bytes = _write_places(file, placed)
        if not is_cut:
            file.truncate(_aligned(file.tell()) + offset_bytes)
    return path


def _write_places(file: BinaryIO, tensors: Sequence[HeaderTensor]) -> int:
    """Write the tensors' entries; bytes of the data that they describe."""
    offset_bytes = 0
    for tensor in tensors:
        dimensions = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        file.write(_string(tensor.name) + dimensions)
        file.write(struct.pack("<IQ", _NUMBERS_BY_NAME[tensor.type], offset_bytes))
        offset_bytes += _aligned(tensor.size_bytes)
    return offset_bytes


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", ValueType.BOOL, value)
        case int():
            return struct.pack("<II", ValueType.UINT32, value)
        case float():
            return struct.pack("<If", ValueType.FLOAT32, value)
        case str():
            return struct.pack("<I", ValueType.STRING) + _string(value)
        case _:
            return struct.pack("<I", ValueType.ARRAY) + _elements(value)


def _elements(values: Sequence[str] | Sequence[int] | Sequence[float]) -> bytes:
    if isinstance(values[0], str):
        return struct.pack("<IQ", ValueType.STRING, len(values)) + b"".join(map(_string, map(str, values)))
    if isinstance(values[0], bool):
        return struct.pack(f"<IQ{len(values)}?", ValueType.BOOL, len(values), *values)
    if isinstance(values[0], int):
        return struct.pack(f"<IQ{len(values)}i", ValueType.INT32, len(values), *values)
    return struct.pack(f"<IQ{len(values)}f", ValueType.FLOAT32, len(values), *values)
