"""The header of a GGUF model: metadata and where each tensor lies, over all parts of a split file.

Invariants: what `read_header` returns is consistent: every tensor lies inside its file, aligned, overlapping no other;
names are unique; layer numbers are below the layer count; all parts are there. The weights themselves are not read, so
holes of a sparse file are not noticed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf.limits import MAX_LAYERS, MAX_PARTS, refused, require
from meshnet.artifact.gguf.part import GgufPart, read_part

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from meshnet.artifact.gguf.part import GgufTensor
    from meshnet.artifact.gguf.reader import MetadataValue

_LAYER_NAME: Final = re.compile(r"blk\.(\d{1,9})\.")
_PART_NAME: Final = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """All parts of one model. The first part's metadata is the model's."""

    parts: tuple[GgufPart, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in order."""
        return tuple(part.path for part in self.parts)

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        """The model's metadata."""
        return self.parts[0].metadata

    @property
    def tensors(self) -> tuple[GgufTensor, ...]:
        """Every tensor of every part."""
        return tuple(tensor for part in self.parts for tensor in part.tensors)

    @property
    def architecture(self) -> str:
        """Name of the architecture, e.g. "llama"."""
        return self.text("general.architecture")

    @property
    def n_layers(self) -> int:
        """Number of transformer layers."""
        return self.number(f"{self.architecture}.block_count", largest=MAX_LAYERS)

    @property
    def context_length(self) -> int:
        """Context length the model was trained for."""
        return self.number(f"{self.architecture}.context_length")

    @property
    def embedding_length(self) -> int:
        """Width of a hidden row."""
        return self.number(f"{self.architecture}.embedding_length")

    def text(self, key: str) -> str:
        """A required string.

        Raises:
            ArtifactError: `bad_metadata`: absent or of another type.
        """
        value = self.metadata.get(key)
        if not isinstance(value, str) or not value:
            raise refused("bad_metadata", f"{key} is not given as text")
        return value

    def number(self, key: str, *, largest: int = 2**31 - 1) -> int:
        """A required whole number from 1 to `largest`.

        Raises:
            ArtifactError: `bad_metadata`: absent, of another type or out of range.
        """
        value = self.metadata.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
            raise refused("bad_metadata", f"{key} is not given as a number from 1 to {largest}")
        return value


def layer_of(tensor_name: str) -> int | None:
    """Absolute layer number of a tensor by its name ("blk.7.attn_q.weight": 7); None for the head's and tail's."""
    found = _LAYER_NAME.match(tensor_name)
    return int(found[1]) if found else None


def read_header(path: Path) -> GgufHeader:
    """Read and check the header of a model by its (first) file.

    Raises:
        ArtifactError: with one of the codes of `limits.TITLES`.
    """
    first = read_part(path)
    count = _split_number(first, "split.count", default=1)
    require(count <= MAX_PARTS, "limit_exceeded", f"{count} parts")
    if count <= 1:
        return _checked(GgufHeader((first,)))
    require(_split_number(first, "split.no", default=-1) == 0, "not_first_part", "give the first part's path")
    others = [read_part(other) for other in _other_paths(path, count)]
    for number, part in enumerate(others, start=1):
        same = _split_number(part, "split.no", default=-1) == number
        require(same and _split_number(part, "split.count", default=-1) == count, "bad_metadata", "mixed-up parts")
    header = _checked(GgufHeader((first, *others)))
    promised = _split_number(first, "split.tensors.count", default=-1)
    require(promised in {-1, len(header.tensors)}, "missing_part", f"{len(header.tensors)} of {promised} tensors")
    return header


def _other_paths(path: Path, count: int) -> list[Path]:
    named = _PART_NAME.fullmatch(path.name)
    if named is None or int(named["number"]) != 1 or int(named["count"]) != count:
        raise refused("bad_metadata", f"the first of {count} parts is named NAME-00001-of-{count:05}.gguf")
    others = [path.with_name(f"{named['prefix']}-{number:05}-of-{count:05}.gguf") for number in range(2, count + 1)]
    for other in others:
        require(other.is_file(), "missing_part", f"{other.name} is not beside the first part")
    return others


def _split_number(part: GgufPart, key: str, *, default: int) -> int:
    value = part.metadata.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise refused("bad_metadata", f"{key} is no number")
    return value


def _checked(header: GgufHeader) -> GgufHeader:
    names = [tensor.name for tensor in header.tensors]
    require(len(set(names)) == len(names), "bad_tensor", "two tensors of one name")
    layers = [layer for layer in map(layer_of, names) if layer is not None]
    if layers:
        require(max(layers) < header.n_layers, "bad_tensor", f"a tensor of layer {max(layers)} of {header.n_layers}")
    return header
