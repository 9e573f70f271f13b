"""The rows that cross a seam of a model for each token, as its header describes them.

Invariant: these figures are for planning; a loaded shard reports the actual ones in its boundary contract. Models with
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

# Tensors of layers that choose experts by token id, or by the presence of one.
# Source: native/src/engine/llama_artifact.cpp, TokenIdLayersEnd.
_BY_TOKEN_ID: Final = (".ffn_gate_tid2eid.weight", ".exp_probs_b_vl.bias")


@dataclass(frozen=True, slots=True)
class Seam:
    """One token's rows between two stages.

    Attributes:
        elements: elements of all streams together.
        streams: number of hidden rows that are handed over side by side; 1 without hyper-connections.
        token_id_layers: layers below this number may choose experts by a row's token id, so a seam below it carries
            token ids beside the rows.
    """

    elements: int
    streams: int
    token_id_layers: int

    def row_bytes(self, codec: Codec) -> int | None:
        """Bytes of one token's rows without its id; None if the codec cannot pack rows of this width."""
        return codec.packed_bytes(self.elements) if codec.can_pack(self.elements) else None


def read_seam(header: GgufHeader) -> Seam:
    """Return the seam of a model.

    Raises:
        ArtifactError: `bad_metadata` if a value that describes it is wrong.
    """
    hparams = Hparams(header)
    streams = max(1, hparams.number("hyper_connection.count", 1))
    return Seam(header.embedding_length * streams, streams, _token_id_layers(header, hparams))


def _token_id_layers(header: GgufHeader, hparams: Hparams) -> int:
    """Find the last such layer by its tensors, as the worker does; if parts are missing, also by the stated count."""
    announced = hparams.number("hash_layer_count", 0)
    layers = [layer_of(tensor.name) for tensor in header.tensors if tensor.name.endswith(_BY_TOKEN_ID)]
    by_tensor = max((layer + 1 for layer in layers if layer is not None and layer < hparams.n_layers), default=0)
    return by_tensor if header.is_complete else max(by_tensor, min(announced, hparams.n_layers))
