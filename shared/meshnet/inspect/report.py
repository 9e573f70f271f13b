"""Collects the facts and figures that `meshnet inspect` reports.

Invariant: `tensor_bytes + metadata_bytes + padding_bytes == file_bytes`, over the parts that are present. `file_bytes`
counts whole files, even if only their headers are present.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.artifact.gguf import read_available
from meshnet.artifact.model.caches import read_caches
from meshnet.artifact.model.cuts import legal_cuts
from meshnet.artifact.model.inventory import take_inventory
from meshnet.artifact.model.memory import ModelMemory
from meshnet.artifact.model.seam import read_seam
from meshnet.artifact.model.split import plan_split
from meshnet.errors import MeshnetError

if TYPE_CHECKING:
    from meshnet.artifact.gguf import AvailableModel, GgufHeader
    from meshnet.artifact.model.caches import ModelCaches
    from meshnet.artifact.model.cuts import LegalCuts
    from meshnet.artifact.model.inventory import Inventory
    from meshnet.artifact.model.memory import Load, RangeMemory
    from meshnet.artifact.model.seam import Seam
    from meshnet.artifact.model.split import Split
    from meshnet.inspect.options import InspectOptions


class InspectError(MeshnetError):
    """The options ask for a figure that this model cannot give, for example of layers that it does not have."""


@dataclass(frozen=True, slots=True)
class FileBytes:
    """Sizes of the parts that are present, in bytes.

    Attributes:
        file_bytes: length of the parts, as if each were whole.
        here_bytes: length of the parts as they are on this machine; the holes of sparse files count too.
    """

    file_bytes: int
    tensor_bytes: int
    metadata_bytes: int
    here_bytes: int

    @property
    def padding_bytes(self) -> int:
        """Bytes that belong to no header and no tensor."""
        return self.file_bytes - self.tensor_bytes - self.metadata_bytes


@dataclass(frozen=True, slots=True)
class Report:
    """The facts about a model, and the figures that the options ask for.

    Attributes:
        missing: numbers of the missing parts, counted from 0; the inventory covers only the parts that are present.
        load: the sessions for which memory was computed.
        ranges: memory of the ranges that were asked for, or of the whole model.
        split: the suggested split over machines; None if none was asked for.
    """

    header: GgufHeader
    missing: tuple[int, ...]
    files: FileBytes
    inventory: Inventory
    cuts: LegalCuts
    seam: Seam
    caches: ModelCaches
    load: Load
    ranges: tuple[RangeMemory, ...]
    split: Split | None


def make_report(options: InspectOptions) -> Report:
    """Read a model's headers and return the report that the options ask for.

    Raises:
        ArtifactError: a file is wrong.
        InspectError: `illegal_cut`, `no_such_layers`, `context_too_long` or `missing_part`.
        SplitError: the model does not fit the machines.
    """
    found = read_available(options.paths)
    header = found.header
    if options.load.context_length > header.context_length:
        message = f"--context {options.load.context_length}: the model has {header.context_length} positions"
        raise InspectError("context_too_long", "Context too long", message)
    inventory, caches, cuts = take_inventory(header), read_caches(header), legal_cuts(header)
    memory = ModelMemory(inventory, caches, header.embedding_length, options.load)
    for layers in options.ranges:
        _check_range(layers, memory.n_layers, cuts)
    if found.missing and (options.ranges or options.memories):
        numbers = ", ".join(str(number + 1) for number in found.missing)
        raise InspectError("missing_part", "Parts are missing", f"memory needs all parts; parts {numbers} are missing")
    return Report(
        header=header,
        missing=found.missing,
        files=_file_bytes(found),
        inventory=inventory,
        cuts=cuts,
        seam=read_seam(header),
        caches=caches,
        load=options.load,
        ranges=tuple(memory.of(*layers) for layers in options.ranges or ((0, memory.n_layers),)),
        split=plan_split(memory, cuts.cuts, options.memories) if options.memories else None,
    )


def _check_range(layers: tuple[int, int], n_layers: int, cuts: LegalCuts) -> None:
    begin, end = layers
    if end > n_layers:
        raise InspectError(
            "no_such_layers", "No such layers", f"--layers {begin}:{end}: the model has {n_layers} layers"
        )
    wrong = cuts.wrong_cut(begin, end, n_layers)
    if wrong is not None:
        raise InspectError("illegal_cut", "Cut not possible", f"--layers {begin}:{end}: {cuts.explain(wrong)}")


def _file_bytes(found: AvailableModel) -> FileBytes:
    parts = found.header.parts
    return FileBytes(
        file_bytes=sum(part.whole_bytes for part in parts),
        tensor_bytes=sum(part.tensor_bytes for part in parts),
        metadata_bytes=sum(part.header_bytes for part in parts),
        here_bytes=sum(part.file_bytes for part in parts),
    )
