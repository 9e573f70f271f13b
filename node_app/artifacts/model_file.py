"""One model file on this machine, seen by a node that serves some of its layers.

Invariants: everything that can be known to be wrong before a worker is started is found here: no file, not GGUF, cut
off, layers the model does not have, owned tensors that a sparse file does not hold. Only headers are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf import GgufHeader, GgufTensor, layer_of, read_header, refuse_missing
from meshnet.errors import ArtifactError
from node_app.settings import LayerSpan, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

FAKE_ARCHITECTURE: Final = "fake"
EMBEDDING: Final = "token_embd.weight"
OUTPUT: Final = "output.weight"
OUTPUT_NORM: Final = "output_norm.weight"

# The worker keeps K and V as f16.
KV_ELEMENT_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A checked model and the part of it to serve.

    Attributes:
        paths: the files, in order.
        layers: to serve.
        width: elements of a hidden row.
        weights_bytes: of the owned tensors.
        kv_bytes_per_cell: of the owned layers, one position.
        tail_share: part of a decode step's weight bytes that norm and output head take; 0 where not owned.
    """

    paths: tuple[Path, ...]
    architecture: str
    n_layers: int
    layers: LayerSpan
    context_length: int
    width: int
    weights_bytes: int
    kv_bytes_per_cell: int
    tail_share: float

    @property
    def is_whole(self) -> bool:
        """Whether all layers are served."""
        return (self.layers.layer_begin, self.layers.layer_end) == (0, self.n_layers)

    @property
    def is_fake(self) -> bool:
        """Whether the FakeEngine serves it."""
        return self.architecture == FAKE_ARCHITECTURE


def open_model(path: Path, asked: LayerSpan | None) -> ModelFile:
    """Check a model's header and the layers asked for.

    Raises:
        ArtifactError: the file is not what it should be.
        SettingsError: the layers are not the model's.
    """
    if not path.is_file():
        raise ArtifactError("unreadable", "File cannot be read", f"{path}: no such file")
    header = read_header(path)
    layers = asked or LayerSpan(0, header.n_layers)
    if layers.layer_end > header.n_layers:
        raise SettingsError(f"--layers {layers}: the model has {header.n_layers} layers")
    owned = [tensor for tensor in header.tensors if _is_owned(tensor, header, layers)]
    refuse_missing(header, {tensor.name for tensor in owned})
    return ModelFile(
        paths=header.paths,
        architecture=header.architecture,
        n_layers=header.n_layers,
        layers=layers,
        context_length=header.context_length,
        width=header.embedding_length,
        weights_bytes=sum(tensor.size_bytes for tensor in owned),
        kv_bytes_per_cell=_kv_bytes_per_cell(header, layers),
        tail_share=_tail_share(header, owned, layers),
    )


def _has_own_output(header: GgufHeader) -> bool:
    return any(tensor.name == OUTPUT for tensor in header.tensors)


def _is_tail_tensor(name: str, header: GgufHeader) -> bool:
    # Tied models have no output tensor: the tail multiplies by the embedding.
    return name in {OUTPUT, OUTPUT_NORM} or (name == EMBEDDING and not _has_own_output(header))


def _is_owned(tensor: GgufTensor, header: GgufHeader, layers: LayerSpan) -> bool:
    layer = layer_of(tensor.name)
    if layer is not None:
        return layers.layer_begin <= layer < layers.layer_end
    is_tail = layers.layer_end == header.n_layers
    if tensor.name == EMBEDDING:
        return layers.layer_begin == 0 or (is_tail and not _has_own_output(header))
    return is_tail if _is_tail_tensor(tensor.name, header) else True


def _tail_share(header: GgufHeader, owned: list[GgufTensor], layers: LayerSpan) -> float:
    if layers.layer_end != header.n_layers:
        return 0.0
    tail_bytes = sum(tensor.size_bytes for tensor in owned if _is_tail_tensor(tensor.name, header))
    layers_bytes = sum(tensor.size_bytes for tensor in owned if layer_of(tensor.name) is not None)
    return tail_bytes / max(1, tail_bytes + layers_bytes)


def _kv_bytes_per_cell(header: GgufHeader, layers: LayerSpan) -> int:
    """Return K and V of one position; an upper bound for architectures that compress them."""
    prefix = f"{header.architecture}.attention"
    heads = _per_layer(header, f"{prefix}.head_count")
    kv_heads = _per_layer(header, f"{prefix}.head_count_kv") or heads
    if not heads or not kv_heads:
        return 0  # no attention (the fake model)
    head_width = header.embedding_length // max(1, heads[0])
    key_width = _optional(header, f"{prefix}.key_length") or head_width
    value_width = _optional(header, f"{prefix}.value_length") or head_width
    owned = kv_heads[layers.layer_begin : layers.layer_end]
    return sum(owned) * (key_width + value_width) * KV_ELEMENT_BYTES


def _per_layer(header: GgufHeader, key: str) -> list[int]:
    """Return a figure given once for all layers, or layer by layer; empty where it is not given."""
    value = header.metadata.get(key)
    if isinstance(value, tuple):
        numbers = [number for number in value if isinstance(number, int)]
        return numbers if len(numbers) == header.n_layers else []
    return [value] * header.n_layers if isinstance(value, int) else []


def _optional(header: GgufHeader, key: str) -> int:
    value = header.metadata.get(key)
    return value if isinstance(value, int) and value > 0 else 0
