"""Reads the header of one GGUF file: its metadata and the position of each tensor.

Invariants: every tensor's bytes are inside the file, aligned, and overlap no other tensor. Keys and names are unique.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, Final

from meshnet.artifact.gguf.limits import (
    MAX_ALIGNMENT_BYTES,
    MAX_DIMENSIONS,
    MAX_FILE_BYTES,
    MAX_KEY_BYTES,
    MAX_KEYS,
    MAX_TENSOR_BYTES,
    MAX_TENSOR_NAME_BYTES,
    refused,
    require,
)
from meshnet.artifact.gguf.reader import HeaderReader, HeaderRoom
from meshnet.artifact.gguf.tensor_types import TENSOR_TYPES, TensorType
from meshnet.errors import ArtifactError
from meshnet.printable import printable_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from meshnet.artifact.gguf.reader import MetadataValue

MAGIC: Final = b"GGUF"
SUPPORTED_VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor's name, type, shape and position in its file.

    Attributes:
        shape: lengths of the dimensions in ggml's order, which begins with the contiguous dimension.
        offset_bytes: distance of the tensor's first byte from the beginning of its file.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class KeyExtent:
    """The bytes `[begin_bytes, end_bytes)` of the file that one metadata entry fills, its key included."""

    key: str
    begin_bytes: int
    end_bytes: int


@dataclass(frozen=True, slots=True)
class GgufPart:
    """The header of one file of a model.

    Attributes:
        version: version of the GGUF format.
        file_bytes: length of the file as it is on the disk.
        header_bytes: length of the header, without the padding after it.
        data_offset_bytes: position of the first tensor's data, after the padding.
        key_extents: position of each metadata entry.
    """

    path: Path
    version: int
    file_bytes: int
    header_bytes: int
    alignment_bytes: int
    data_offset_bytes: int
    metadata: Mapping[str, MetadataValue]
    key_extents: tuple[KeyExtent, ...]
    tensors: tuple[GgufTensor, ...]

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors, without the padding between them."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @property
    def whole_bytes(self) -> int:
        """Length of the file; if the file is cut off before its last tensor ends, the length that it should have."""
        end_bytes = max((tensor.offset_bytes + tensor.size_bytes for tensor in self.tensors), default=0)
        return self.file_bytes if end_bytes <= self.file_bytes else _aligned(end_bytes, self.alignment_bytes)


def read_part(path: Path, room: HeaderRoom, *, is_data_here: bool = True) -> GgufPart:
    """Read and check one file's header.

    Args:
        path: the file.
        room: the limits that all parts of the model share. Reading subtracts the bytes and counts of this header.
        is_data_here: if true, a file that ends before its tensors do is refused.

    Raises:
        ArtifactError: the file is wrong; the code is one of `limits.TITLES`.
    """
    try:
        with _open_regular(path) as file:
            file_bytes = os.fstat(file.fileno()).st_size
            return _read(path, HeaderReader(file, file_bytes, room), file_bytes if is_data_here else MAX_FILE_BYTES)
    except OSError as error:
        raise refused("unreadable", f"{printable_path(path)}: {error.strerror}") from error
    except ArtifactError as error:
        if error.code != "truncated":
            raise
        # The value reader has no path, so the error is raised again here, where the file is known.
        message = f"{printable_path(path)} is shorter than its header promises: fetch it again"
        raise refused("truncated", message) from error


def _open_regular(path: Path) -> BinaryIO:
    """Open a regular file. Anything else is refused, because reading a pipe, for example, could wait forever."""
    require(not path.exists() or path.is_file(), "unreadable", f"{printable_path(path)} is not a regular file")
    return path.open("rb")


def _read(path: Path, reader: HeaderReader, end_bytes: int) -> GgufPart:
    """Read a header and check that its tensors end at `end_bytes` or before."""
    is_gguf = reader.file_bytes >= len(MAGIC) and reader.take(len(MAGIC)) == MAGIC
    require(is_gguf, "not_gguf", f"{printable_path(path)} is not a GGUF file")
    version = reader.u32()
    require(version in SUPPORTED_VERSIONS, "unsupported_version", f"its version is {version}")
    n_tensors, n_keys = reader.u64(), reader.u64()
    reader.room.take_tensors(n_tensors)
    require(n_keys <= MAX_KEYS, "limit_exceeded", f"{n_keys} metadata keys are more than {MAX_KEYS}")
    metadata, extents = _read_metadata(reader, n_keys)
    relative = [_read_tensor(reader) for _ in range(n_tensors)]
    reader.end()
    alignment_bytes = _alignment_bytes(metadata)
    data_offset_bytes = _aligned(reader.offset_bytes, alignment_bytes)
    tensors = tuple(_placed(tensor, data_offset_bytes, alignment_bytes, end_bytes) for tensor in relative)
    _check_overlap(tensors)
    return GgufPart(
        path=path,
        version=version,
        file_bytes=reader.file_bytes,
        header_bytes=reader.offset_bytes,
        alignment_bytes=alignment_bytes,
        data_offset_bytes=data_offset_bytes,
        metadata=metadata,
        key_extents=extents,
        tensors=tensors,
    )


def _aligned(offset_bytes: int, alignment_bytes: int) -> int:
    return -(-offset_bytes // alignment_bytes) * alignment_bytes


def _read_metadata(reader: HeaderReader, n_keys: int) -> tuple[dict[str, MetadataValue], tuple[KeyExtent, ...]]:
    metadata: dict[str, MetadataValue] = {}
    extents: list[KeyExtent] = []
    for _ in range(n_keys):
        begin_bytes = reader.offset_bytes
        key = reader.string(MAX_KEY_BYTES)
        require(bool(key) and key not in metadata, "bad_metadata", "a key is empty or occurs twice")
        metadata[key] = reader.value()
        extents.append(KeyExtent(key, begin_bytes, reader.offset_bytes))
    return metadata, tuple(extents)


def _read_tensor(reader: HeaderReader) -> GgufTensor:
    """Read a tensor's header entry. The offset in the result still counts from the beginning of the data."""
    name = reader.string(MAX_TENSOR_NAME_BYTES)
    n_dimensions = reader.u32()
    require(
        bool(name) and 1 <= n_dimensions <= MAX_DIMENSIONS,
        "bad_tensor",
        f"a tensor has no name, or {n_dimensions} dimensions",
    )
    shape = tuple(reader.u64() for _ in range(n_dimensions))
    type_number = reader.u32()
    tensor_type = TENSOR_TYPES.get(type_number)
    if tensor_type is None:
        raise refused("unsupported_tensor_type", f"a tensor has type {type_number}")
    whole_blocks = all(length >= 1 for length in shape) and shape[0] % tensor_type.block_elements == 0
    require(whole_blocks, "bad_tensor", "a dimension is zero or does not hold whole blocks")
    size_bytes = math.prod(shape) // tensor_type.block_elements * tensor_type.block_bytes
    require(size_bytes <= MAX_TENSOR_BYTES, "limit_exceeded", "a tensor is larger than any file")
    return GgufTensor(name, tensor_type, shape, reader.u64(), size_bytes)


def _alignment_bytes(metadata: Mapping[str, MetadataValue]) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT_BYTES)
    if not isinstance(value, int) or not 1 <= value <= MAX_ALIGNMENT_BYTES or value & (value - 1):
        raise refused("bad_metadata", "general.alignment is not a power of two")
    return value


def _placed(tensor: GgufTensor, data_offset_bytes: int, alignment_bytes: int, end_bytes: int) -> GgufTensor:
    require(tensor.offset_bytes % alignment_bytes == 0, "bad_tensor", "a tensor is not aligned")
    offset_bytes = data_offset_bytes + tensor.offset_bytes
    require(offset_bytes + tensor.size_bytes <= end_bytes, "truncated", "a tensor reaches beyond the file's end")
    return GgufTensor(tensor.name, tensor.type, tensor.shape, offset_bytes, tensor.size_bytes)


def _check_overlap(tensors: tuple[GgufTensor, ...]) -> None:
    ordered = sorted(tensors, key=lambda tensor: tensor.offset_bytes)
    for before, after in pairwise(ordered):
        apart = before.offset_bytes + before.size_bytes <= after.offset_bytes
        require(apart, "bad_tensor", "two tensors overlap")
