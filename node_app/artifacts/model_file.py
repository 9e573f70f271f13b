"""Checks a model file and the layers that this node is to serve, before a worker is started.

Invariant: only headers are read. That is enough to refuse a missing or truncated file, a file that is no GGUF file, a
sparse file that lacks tensors of the shard, layers that the model does not have, and a shard that begins or ends at a
layer that is no legal cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf import read_header, refuse_missing
from meshnet.artifact.model.caches import read_caches
from meshnet.artifact.model.cuts import legal_cuts
from meshnet.artifact.model.inventory import owned_by, take_inventory
from meshnet.errors import ArtifactError
from node_app.settings import LayerSpan, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.artifact.gguf import GgufHeader
    from meshnet.artifact.model.caches import LayerCache
    from meshnet.artifact.model.inventory import Inventory

FAKE_ARCHITECTURE: Final = "fake"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A checked model and the shard of it that this node serves.

    Attributes:
        paths: the model's files in order; several if the model is split.
        layers: the shard's layers.
        context_length: number of positions for which the model was trained.
        width: number of elements of a hidden row.
        weights_bytes: size of the tensors that the shard owns.
        caches: for each layer of the shard, the rows and states that it keeps of a sequence.
        tail_share: part of the weight bytes read by a decode step that belongs to the output norm and the output head;
            0 if the shard is not the tail.
    """

    paths: tuple[Path, ...]
    architecture: str
    n_layers: int
    layers: LayerSpan
    context_length: int
    width: int
    weights_bytes: int
    caches: tuple[LayerCache, ...]
    tail_share: float

    @property
    def is_whole(self) -> bool:
        """Whether the shard is the whole model."""
        return (self.layers.layer_begin, self.layers.layer_end) == (0, self.n_layers)

    @property
    def is_fake(self) -> bool:
        """Whether this is a test model, which the worker computes with its FakeEngine."""
        return self.architecture == FAKE_ARCHITECTURE


def open_model(path: Path, asked: LayerSpan | None) -> ModelFile:
    """Check a model's headers and the layers to serve, and return the checked model.

    Args:
        path: path of the model file, or of the first file of a split model.
        asked: the layers to serve; None for all.

    Raises:
        ArtifactError: the file is missing, unreadable, damaged or not supported, or lacks tensors of the shard.
        SettingsError: the model does not have these layers; with the code `illegal_cut`, it may not be cut there.
    """
    if not path.is_file():
        raise ArtifactError("unreadable", "File cannot be read", f"{path}: no such file")
    header = read_header(path)
    layers = asked or LayerSpan(0, header.n_layers)
    if layers.layer_end > header.n_layers:
        raise SettingsError(f"--layers {layers}: the model has {header.n_layers} layers")
    _refuse_illegal_cut(header, layers)
    owned = owned_by(header, layers.layer_begin, layers.layer_end)
    refuse_missing(header, {tensor.name for tensor in owned})
    inventory = take_inventory(header)
    return ModelFile(
        paths=header.paths,
        architecture=header.architecture,
        n_layers=header.n_layers,
        layers=layers,
        context_length=header.context_length,
        width=header.embedding_length,
        weights_bytes=inventory.weight_bytes(layers.layer_begin, layers.layer_end),
        caches=read_caches(header).layers[layers.layer_begin : layers.layer_end],
        tail_share=_tail_share(inventory, layers),
    )


def _refuse_illegal_cut(header: GgufHeader, layers: LayerSpan) -> None:
    cuts = legal_cuts(header)
    wrong = cuts.wrong_cut(layers.layer_begin, layers.layer_end, header.n_layers)
    if wrong is not None:
        raise SettingsError(f"--layers {layers}: {cuts.explain(wrong)}", code="illegal_cut")


def _tail_share(inventory: Inventory, layers: LayerSpan) -> float:
    if layers.layer_end != len(inventory.layers):
        return 0.0
    tail_bytes = inventory.tail.size_bytes + inventory.tied_bytes
    layers_bytes = sum(layer.size_bytes for layer in inventory.layers[layers.layer_begin :])
    return tail_bytes / max(1, tail_bytes + layers_bytes)
