"""Computes from a model's header how large the rows are that cross a seam for each token.

Invariant: these sizes are for planning; a loaded shard reports the actual ones in its boundary contract. A model with
hyper-connections has several hidden rows (streams) for each token, and all of them cross. Source: docs/wire.md, Codecs;
the pinned llama.cpp's deepseek4.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.artifact.gguf import layer_of
from meshnet.artifact.model.hparams import Hparams

if TYPE_CHECKING:
    from meshnet.artifact.gguf import GgufHeader
    from meshnet.frame import Codec

# Tensors of layers that choose experts by token id, or by the presence of one.
# Source: native/src/engine/llama_artifact.cpp, TokenIdLayersEnd.
_BY_TOKEN_ID: Final = (".ffn_gate_tid2eid.weight", ".exp_probs_b_vl.bias")


@dataclass(frozen=True, slots=True)
class Seam:
    """The rows of one token that cross a seam.

    Attributes:
        elements: number of elements of all hidden rows together.
        streams: number of hidden rows for each token; 1 without hyper-connections.
        token_id_layers: layers below this number may choose experts by token id, so a seam in front of such a layer
            carries token ids beside the rows; 0 if there are none.
    """

    elements: int
    streams: int
    token_id_layers: int

    def row_bytes(self, codec: Codec) -> int | None:
        """Return the packed bytes of one token's rows, without its id; None if `codec` cannot pack this width."""
        return codec.packed_bytes(self.elements) if codec.can_pack(self.elements) else None


def read_seam(header: GgufHeader) -> Seam:
    """Return the rows that cross a model's seams; they are of the same size at every seam.

    Raises:
        ArtifactError: `bad_metadata` if a value that describes the rows is wrong.
    """
    hparams = Hparams(header)
    streams = max(1, hparams.number("hyper_connection.count", 1))
    return Seam(header.embedding_length * streams, streams, _token_id_layers(header, hparams))


def _token_id_layers(header: GgufHeader, hparams: Hparams) -> int:
    """Return the number of the last layer that may choose experts by token id, plus 1; 0 if there is none.

    Such layers are found by their tensors, as the worker finds them. If parts of the model are missing, the number that
    the metadata gives is returned if it is larger.
    """
    announced = hparams.number("hash_layer_count", 0)
    layers = [layer_of(tensor.name) for tensor in header.tensors if tensor.name.endswith(_BY_TOKEN_ID)]
    by_tensor = max((layer + 1 for layer in layers if layer is not None and layer < hparams.n_layers), default=0)
    return by_tensor if header.is_complete else max(by_tensor, min(announced, hparams.n_layers))
