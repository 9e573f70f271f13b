"""What crosses a seam of a model for each token.

Invariant: the header's word, for planning; what a loaded shard really gives is in its boundary contract. Models with
hyper-connections hand over all their streams. Source: docs/wire.md, Codecs; the pinned tree's deepseek4.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.artifact.model.hparams import Hparams

if TYPE_CHECKING:
    from meshnet.artifact.gguf import GgufHeader
    from meshnet.frame import Codec


@dataclass(frozen=True, slots=True)
class Seam:
    """One token's rows between two stages.

    Attributes:
        elements: of all streams.
        streams: hidden rows that are handed over side by side; 1 without hyper-connections.
        token_id_layers: the first so many layers route by token id, so ids travel with the rows up to them.
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
    return Seam(header.embedding_length * streams, streams, hparams.number("hash_layer_count", 0))
