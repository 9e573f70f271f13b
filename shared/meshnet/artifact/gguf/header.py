"""Reads the header of a GGUF model from all its files (parts): the metadata and the position of each tensor.

Invariants: a header that `read_header` returns is consistent. Every tensor is inside its file, aligned, and overlaps no
other tensor; names are unique; layer numbers are below the layer count; all parts are present. Weights are not read, so
the holes of a sparse file are not noticed here (see `missing_ranges`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf.limits import MAX_LAYERS, MAX_PARTS, refused, require
from meshnet.artifact.gguf.part import GgufPart, read_part
from meshnet.artifact.gguf.part_names import part_path, split_number
from meshnet.artifact.gguf.reader import HeaderRoom
from meshnet.printable import printable_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from meshnet.artifact.gguf.part import GgufTensor
    from meshnet.artifact.gguf.reader import MetadataValue

# The architecture's name is part of metadata keys, and so of error messages.
_ARCHITECTURE_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LAYER_NAME: Final = re.compile(r"blk\.(\d{1,9})\.")
# Files of these architectures may announce nextn blocks without holding them; such blocks are not counted. Source:
# deepseek4.cpp, load_arch_hparams. Each is given with a metadata key whose list has one value for every block of the
# published model, including announced blocks that the file does not hold.
_NEXTN_BY_TENSOR: Final = {"deepseek4": "attention.compress_ratios"}


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """The header of one model, from all its parts. The first part's metadata is the model's."""

    parts: tuple[GgufPart, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Paths of the files, in order."""
        return tuple(part.path for part in self.parts)

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        """Metadata of the model."""
        return self.parts[0].metadata

    @property
    def tensors(self) -> tuple[GgufTensor, ...]:
        """The tensors of all parts."""
        return tuple(tensor for part in self.parts for tensor in part.tensors)

    @property
    def architecture(self) -> str:
        """Name of the architecture, for example "llama".

        Raises:
            ArtifactError: `bad_metadata` if the name is absent or not a valid name.
        """
        name = self.text("general.architecture")
        if not _ARCHITECTURE_NAME.fullmatch(name):
            raise refused("bad_metadata", "general.architecture is not a name of 1 to 64 letters, digits and ._-")
        return name

    @property
    def n_blocks(self) -> int:
        """Number of transformer blocks, nextn (MTP) blocks included."""
        return self.number(f"{self.architecture}.block_count", largest=MAX_LAYERS)

    @property
    def n_nextn(self) -> int:
        """Number of nextn (MTP) blocks in the file. They come last and predict further tokens."""
        key = f"{self.architecture}.nextn_predict_layers"
        if self.metadata.get(key, 0) == 0:
            return 0
        count = self.number(key, largest=self.n_blocks - 1)
        per_block = _NEXTN_BY_TENSOR.get(self.architecture)
        if per_block is None or self._has_nextn_tensors(count):
            return count
        return count if not self.is_complete and self._counts_every_block(per_block) else 0

    @property
    def is_complete(self) -> bool:
        """Tell if all parts are present."""
        return len(self.parts) == max(1, split_number(self.parts[0], "split.count", default=1))

    @property
    def n_layers(self) -> int:
        """Number of transformer layers that a token passes, without nextn (MTP) blocks."""
        return self.n_blocks - self.n_nextn

    @property
    def context_length(self) -> int:
        """Context length that the model was trained for, in tokens."""
        return self.number(f"{self.architecture}.context_length")

    @property
    def embedding_length(self) -> int:
        """Number of elements in a hidden row."""
        return self.number(f"{self.architecture}.embedding_length")

    def _has_nextn_tensors(self, count: int) -> bool:
        name = f"blk.{self.n_blocks - count}.nextn.eh_proj.weight"
        return any(tensor.name == name for tensor in self.tensors)

    def _counts_every_block(self, key: str) -> bool:
        """Tell if the metadata's list under `key` has one value for each block.

        If parts are missing, this is the only sign that the nextn blocks exist.
        """
        figures = self.metadata.get(f"{self.architecture}.{key}")
        return isinstance(figures, tuple) and len(figures) == self.n_blocks

    def text(self, key: str) -> str:
        """Return the metadata's string under `key`, which must be present.

        Raises:
            ArtifactError: `bad_metadata` if it is absent, empty or of another type.
        """
        value = self.metadata.get(key)
        if not isinstance(value, str) or not value:
            raise refused("bad_metadata", f"{key} is not given as text")
        return value

    def number(self, key: str, *, largest: int = 2**31 - 1) -> int:
        """Return the metadata's whole number under `key`, which must be present.

        Raises:
            ArtifactError: `bad_metadata` if it is absent, of another type, or not from 1 to `largest`.
        """
        value = self.metadata.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
            raise refused("bad_metadata", f"{key} is not given as a number from 1 to {largest}")
        return value


@dataclass(frozen=True, slots=True)
class AvailableModel:
    """A model of which some parts may be missing.

    Attributes:
        header: the header, from the parts that are present.
        missing: numbers of the missing parts, counted from 0.
    """

    header: GgufHeader
    missing: tuple[int, ...]


def layer_of(tensor_name: str) -> int | None:
    """Return the layer number in a tensor's name ("blk.7.attn_q.weight": 7); None if it belongs to no layer."""
    found = _LAYER_NAME.match(tensor_name)
    return int(found[1]) if found else None


def read_header(path: Path) -> GgufHeader:
    """Read and check the header of a model, given the path of its first file.

    Raises:
        ArtifactError: a file is wrong or missing; the code is one of `limits.TITLES`.
    """
    found = _read_parts([path], is_data_here=True)
    if found.missing:
        raise refused("missing_part", f"part {found.missing[0] + 1} is not in the first part's folder")
    header = _checked(found.header)
    promised = split_number(header.parts[0], "split.tensors.count", default=-1)
    require(promised in {-1, len(header.tensors)}, "missing_part", f"{len(header.tensors)} of {promised} tensors found")
    return header


def read_available(paths: Sequence[Path]) -> AvailableModel:
    """Read the headers of the parts that are present. Weights, and all parts but the first, may be missing.

    Args:
        paths: the first part and any others, in any order. Parts not listed are looked for in the first part's folder.

    Raises:
        ArtifactError: a file is wrong; the code is one of `limits.TITLES`.
    """
    found = _read_parts(paths, is_data_here=False)
    return AvailableModel(_checked(found.header), found.missing)


def _read_parts(paths: Sequence[Path], *, is_data_here: bool) -> AvailableModel:
    by_number: dict[int, GgufPart] = {}
    room = HeaderRoom()
    for path in paths:
        part = read_part(path, room, is_data_here=is_data_here)
        number = split_number(part, "split.no", default=0)
        require(number >= 0, "bad_metadata", f"a part's number is {number}")
        require(
            number not in by_number, "bad_metadata", f"{printable_path(path)} is a second file with part {number + 1}"
        )
        by_number[number] = part
    if 0 not in by_number:
        raise refused("not_first_part", "give the path of the first part")
    first = by_number[0]
    count = split_number(first, "split.count", default=1)
    require(max(by_number) < max(1, count) <= MAX_PARTS, "limit_exceeded", f"the model says that it has {count} parts")
    missing = []
    for number in range(1, count):
        if number not in by_number:
            path = part_path(first.path, number, count)
            if not path.is_file():
                missing.append(number)
                continue
            by_number[number] = read_part(path, room, is_data_here=is_data_here)
        by_number[number] = _later_part(by_number[number], number, count)
    return AvailableModel(GgufHeader(tuple(part for _, part in sorted(by_number.items()))), tuple(missing))


def _later_part(part: GgufPart, number: int, count: int) -> GgufPart:
    """Check a part's number and return the part without metadata, since only the first part's metadata counts."""
    numbers = (split_number(part, "split.no", default=-1), split_number(part, "split.count", default=-1))
    require(numbers == (number, count), "bad_metadata", f"part {number + 1} of {count} says that it is another part")
    return replace(part, metadata={}, key_extents=())


def _checked(header: GgufHeader) -> GgufHeader:
    names = [tensor.name for tensor in header.tensors]
    require(len(set(names)) == len(names), "bad_tensor", "two tensors have the same name")
    layers = [layer for layer in map(layer_of, names) if layer is not None]
    if layers:
        require(max(layers) < header.n_blocks, "bad_tensor", f"a tensor is of layer {max(layers)} of {header.n_blocks}")
    return header
