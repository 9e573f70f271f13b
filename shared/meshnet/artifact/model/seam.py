"""What crosses a seam of a model for each token.

Invariant: the header's word, for planning; what a loaded shard really gives is in its boundary contract. Models with
hyper-connections hand over all their streams. Source: docs/wire.md, Codecs; the pinned tree's deepseek4.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf import layer_of
from meshnet.artifact.model.hparams import Hparams

if TYPE_CHECKING:
    from meshnet.artifact.gguf import GgufHeader
    from meshnet.frame import Codec

# Experts chosen by token id, or by whether there is one.
# Source: native/src/engine/llama_artifact.cpp, TokenIdLayersEnd.
_BY_TOKEN_ID: Final = (".ffn_gate_tid2eid.weight", ".exp_probs_b_vl.bias")


@dataclass(frozen=True, slots=True)
class Seam:
    """One token's rows between two stages.

    Attributes:
        elements: of all streams.
        streams: hidden rows that are handed over side by side; 1 without hyper-connections.
        token_id_layers: the last layer whose experts depend on a row's token id is before this one, so ids travel with
            the rows up to it.
    """

    elements: int
    streams: int
    token_id_layers: int

    def row_bytes(self, codec: Codec) -> int | None:
        """One token's bytes, without its id; None where the codec does not take rows of this width."""
        return codec.packed_bytes(self.elements) if codec.can_pack(self.elements) else None


def read_seam(header: GgufHeader) -> Seam:
    """The seam of a model.

    Raises:
        ArtifactError: `bad_metadata`.
    """
    hparams = Hparams(header)
    streams = max(1, hparams.number("hyper_connection.count", 1))
    return Seam(header.embedding_length * streams, streams, _token_id_layers(header, hparams))


def _token_id_layers(header: GgufHeader, hparams: Hparams) -> int:
    """By the tensors, as the worker and the graph go; by the count that announces them where parts are not here."""
    announced = hparams.number("hash_layer_count", 0)
    layers = [layer_of(tensor.name) for tensor in header.tensors if tensor.name.endswith(_BY_TOKEN_ID)]
    by_tensor = max((layer + 1 for layer in layers if layer is not None and layer < hparams.n_layers), default=0)
    return by_tensor if header.is_complete else max(by_tensor, min(announced, hparams.n_layers))
