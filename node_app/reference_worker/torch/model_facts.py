"""The sizes and constants of a model that `decoder` needs, read from untrusted GGUF metadata.

Invariant: if a model's graph differs from the one in `decoder`, the model is refused and never computed wrongly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.errors import ArtifactError, WorkerError

if TYPE_CHECKING:
    from meshnet.artifact.gguf import GgufHeader


@dataclass(frozen=True, slots=True)
class Graph:
    """The differences between the architectures that `decoder` can compute.

    Attributes:
        rotates_halves: if true, rope rotates element i together with i + rope_size / 2. If false, it rotates elements
            2i and 2i + 1, and GGUF files store the weights of Q and K in the order for that.
        has_biases: Q, K and V have biases.
        has_head_norms: each head of Q and K is normalised before rope.
    """

    rotates_halves: bool
    has_biases: bool = False
    has_head_norms: bool = False


GRAPHS: Final = {
    "llama": Graph(rotates_halves=False),
    "qwen2": Graph(rotates_halves=True, has_biases=True),
    "qwen3": Graph(rotates_halves=True, has_head_norms=True),
}
_DEFAULT_ROPE_BASE: Final = 10_000.0
_LARGEST_SIZE: Final = 2**20
# If one of these keys is present and not zero, the model has another graph.
_FOREIGN_KEYS: Final = ("expert_count", "attention.sliding_window", "attention.scale", "logit_scale", "residual_scale")
# Values that these keys may have in the same graph, as if they were absent; 0 means no factor. Source: llama-model.cpp.
_SAME_GRAPH: Final[dict[str, tuple[float, ...]]] = {
    "attention.causal": (True,),
    "rope.scale_linear": (0, 1),
    "rope.scaling.attn_factor": (1,),
    "rope.scaling.factor": (0, 1),
}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Sizes and constants of one model. `head_size` is that of Q, K and V alike; `rope_size` <= `head_size`."""

    architecture: str
    graph: Graph
    n_layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    rope_size: int
    rope_base: float
    rms_epsilon: float
    context_length: int

    @classmethod
    def of(cls, header: GgufHeader) -> ModelFacts:
        """Read the facts from a GGUF file's header.

        Raises:
            WorkerError: `unsupported_architecture`: the model has another graph than those of `decoder`.
            ArtifactError: `bad_metadata`: a value is missing, malformed or contradicts another.
        """
        architecture = header.architecture
        if architecture not in GRAPHS:
            raise unsupported(f"the torch engine has no graph of {architecture}")
        _refuse_other_graphs(header)
        width, heads = _size(header, "embedding_length"), _size(header, "attention.head_count")
        head_size = _size(header, "attention.key_length", width // heads)
        if _size(header, "attention.value_length", head_size) != head_size:
            raise unsupported("values of another size than keys")
        kv_heads, rope_size = (
            _size(header, "attention.head_count_kv", heads),
            _size(header, "rope.dimension_count", head_size),
        )
        if heads % kv_heads or rope_size % 2 or rope_size > head_size:
            raise bad_metadata(f"{heads} heads, {kv_heads} of keys, rope over {rope_size} of {head_size}")
        return cls(
            architecture=architecture,
            graph=GRAPHS[architecture],
            n_layers=header.n_layers,
            width=width,
            heads=heads,
            kv_heads=kv_heads,
            head_size=head_size,
            rope_size=rope_size,
            rope_base=_decimal(header, "rope.freq_base", _DEFAULT_ROPE_BASE),
            rms_epsilon=_decimal(header, "attention.layer_norm_rms_epsilon"),
            context_length=header.context_length,
        )


def unsupported(message: str) -> WorkerError:
    """Return the error for a model that this engine has no graph for."""
    return WorkerError("unsupported_architecture", "No such engine", message)


def bad_metadata(message: str) -> ArtifactError:
    """Return the error for metadata that are malformed or contradict each other."""
    return ArtifactError("bad_metadata", "Unusable model file", message)


def refuse_range(layer_begin: int, layer_end: int, n_layers: int) -> None:
    """Raise if the model does not have layers [layer_begin, layer_end), or if there are none.

    Raises:
        WorkerError: `layers_out_of_range`.
    """
    if not 0 <= layer_begin < layer_end <= n_layers:
        raise WorkerError("layers_out_of_range", "No such layers", f"layers {layer_begin}:{layer_end} of {n_layers}")


def _refuse_other_graphs(header: GgufHeader) -> None:
    for name in _FOREIGN_KEYS:
        if header.metadata.get(f"{header.architecture}.{name}"):
            raise unsupported(f"{header.architecture} with {name}")
    for name, values in _SAME_GRAPH.items():
        if header.metadata.get(f"{header.architecture}.{name}", values[-1]) not in values:
            raise unsupported(f"{header.architecture} with another {name} than {' or '.join(map(str, values))}")
    if header.metadata.get(f"{header.architecture}.rope.scaling.type", "none") != "none":
        raise unsupported(f"{header.architecture} with a rope.scaling.type")


def _size(header: GgufHeader, name: str, default: int | None = None) -> int:
    key = f"{header.architecture}.{name}"
    if default is not None and key not in header.metadata:
        return default
    return header.number(key, largest=_LARGEST_SIZE)


def _decimal(header: GgufHeader, name: str, default: float | None = None) -> float:
    value = header.metadata.get(f"{header.architecture}.{name}", default)
    if not isinstance(value, float) or not math.isfinite(value) or value <= 0:
        raise bad_metadata(f"{header.architecture}.{name} is no positive number")
    return value
