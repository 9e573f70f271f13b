"""Reads and writes files of named tensors and a few text fields, in the safetensors format.

Invariants: a file holds only matrices of f32 and i32, little-endian and row-major, in the header's order without gaps.
Every count and offset is checked before memory is allocated for it, because a file may come from anywhere. Source:
https://github.com/huggingface/safetensors, Format.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LENGTH_BYTES: Final = 8
HEADER_BYTES_MAX: Final = 1 << 20
TENSORS_MAX: Final = 8192
DIMENSION_MAX: Final = 1 << 24
ELEMENT_BYTES: Final = 4
DTYPES: Final = frozenset({"F32", "I32"})
METADATA: Final = "__metadata__"


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """The type, shape and position of one matrix.

    Attributes:
        dtype: "F32" or "I32".
        shape: (rows, elements per row).
        begin: position of the first byte, counted from the end of the header.
        end: position of the first byte after the matrix, counted from the end of the header.
    """

    name: str
    dtype: str
    shape: tuple[int, int]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """The contents of a file's header, which stands before the data of the tensors.

    Attributes:
        words: the text fields, by name.
        places: type, shape and position of each tensor by name, in the order of the data.
        data_at: bytes from the beginning of the file to the first tensor.
    """

    words: Mapping[str, str]
    places: Mapping[str, TensorPlace]
    data_at: int

    @property
    def file_bytes(self) -> int:
        """Length of the whole file in bytes."""
        return self.data_at + max((place.end for place in self.places.values()), default=0)


@dataclass(frozen=True, slots=True)
class Matrix:
    """One tensor to be written; `data` holds shape[0] x shape[1] elements of 4 bytes."""

    name: str
    dtype: str
    shape: tuple[int, int]
    data: bytes


def write_tensors(metadata: Mapping[str, str], matrices: Sequence[Matrix]) -> bytes:
    """Return the contents of a file with these tensors and text fields."""
    fields: dict[str, object] = {METADATA: dict(metadata)}
    begin = 0
    for matrix in matrices:
        end = begin + len(matrix.data)
        fields[matrix.name] = {"dtype": matrix.dtype, "shape": list(matrix.shape), "data_offsets": [begin, end]}
        begin = end
    header = json.dumps(fields, separators=(",", ":")).encode()
    header += b" " * (-len(header) % LENGTH_BYTES)  # tensors begin at a multiple of 8
    return b"".join([len(header).to_bytes(LENGTH_BYTES, "little"), header, *(matrix.data for matrix in matrices)])


def header_bytes(begin: bytes) -> int:
    """Return the length of a file's header in bytes, given the first bytes of the file.

    The 8 bytes in which the file gives the length are included.

    Raises:
        ArtifactError: `not_golden` if the length is zero or too large.
    """
    length = int.from_bytes(begin[:LENGTH_BYTES], "little") if len(begin) >= LENGTH_BYTES else 0
    if not 0 < length <= HEADER_BYTES_MAX:
        raise _wrong("its header's length is not possible")
    return LENGTH_BYTES + length


def parse_header(begin: bytes) -> TensorHeader:
    """Read a file's header. `begin` must hold the whole header, and may hold more of the file.

    Raises:
        ArtifactError: `not_golden`; its message names the defect.
    """
    end = header_bytes(begin)
    if len(begin) < end:
        raise _wrong("it is cut off")
    try:
        fields = json.loads(begin[LENGTH_BYTES:end])
    except (ValueError, RecursionError) as error:
        raise _wrong("its header is not JSON") from error
    if not isinstance(fields, dict) or len(fields) > TENSORS_MAX:
        raise _wrong("its header is not an object of tensors")
    metadata = _parse_metadata(fields.pop(METADATA, {}))
    places = {name: _parse_place(name, value) for name, value in fields.items()}
    _require_dense(places.values())
    return TensorHeader(metadata, places, end)


def _parse_metadata(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _wrong("its metadata is not text")
    return value


def _parse_place(name: str, value: object) -> TensorPlace:
    if not isinstance(value, dict):
        raise _wrong("a tensor is not described")
    dtype, shape, offsets = value.get("dtype"), _pair(value.get("shape")), _pair(value.get("data_offsets"))
    if not isinstance(dtype, str) or dtype not in DTYPES or shape is None or offsets is None:
        raise _wrong("a tensor is not a matrix of f32 or i32")
    rows, elements = shape
    if not (0 < rows <= DIMENSION_MAX and 0 < elements <= DIMENSION_MAX):
        raise _wrong("a tensor's shape is not possible")
    if offsets[1] - offsets[0] != rows * elements * ELEMENT_BYTES:
        raise _wrong("a tensor's bytes do not match its shape")
    return TensorPlace(name, dtype, shape, *offsets)


def _pair(value: object) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in value):
        return None
    return value[0], value[1]


def _require_dense(places: Iterable[TensorPlace]) -> None:
    at = 0
    for place in places:
        if place.begin != at:
            raise _wrong("its tensors overlap or leave gaps")
        at = place.end


def _wrong(reason: str) -> ArtifactError:
    return ArtifactError("not_golden", "Not a golden probe", f"this is not a golden probe: {reason}")
