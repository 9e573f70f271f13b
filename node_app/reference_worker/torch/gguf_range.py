"""A layer range from a GGUF file: its weights are dequantised to float32 and computed by the layers of `decoder`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import torch

from meshnet.artifact.gguf import read_header
from node_app.reference_worker.torch.decoder import DecoderLayer, DecoderStep, KeysAndValues, Rope, rms_norm
from node_app.reference_worker.torch.gguf_weights import GgufWeights
from node_app.reference_worker.torch.layer_range import ignore_progress
from node_app.reference_worker.torch.model_facts import ModelFacts, refuse_range

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from node_app.reference_worker.sessions.program import Progress
    from node_app.reference_worker.torch.layer_range import Cache

_F32_BYTES: Final = 4


class GgufRange:
    """A `LayerRange` that is loaded from a GGUF file."""

    def __init__(
        self,
        weights: GgufWeights,
        facts: ModelFacts,
        layer_begin: int,
        layer_end: int,
        progress: Progress = ignore_progress,
    ) -> None:
        refuse_range(layer_begin, layer_end, facts.n_layers)
        self.facts = facts
        self.layer_begin = layer_begin
        self.layer_end = layer_end
        self.libraries = f"torch {torch.__version__}"
        self.vocab_size = weights.shape("token_embd.weight")[0]
        half = facts.rope_size // 2
        factors = weights.take("rope_freqs.weight", half) if "rope_freqs.weight" in weights else None
        self._rope = Rope(facts, factors)
        self._layers: list[DecoderLayer] = []
        for layer in range(layer_begin, layer_end):
            self._layers.append(DecoderLayer(facts, self._rope, weights, layer))
            progress(len(self._layers) / (layer_end - layer_begin))
        weights.refuse_untaken(layer_begin, layer_end)
        self._embeddings = self._take_embeddings(weights) if layer_begin == 0 else None
        self._head = self._take_head(weights) if layer_end == facts.n_layers else None
        self.bytes_read = weights.bytes_read
        self.weights_bytes = weights.elements_read * _F32_BYTES
        self.cell_bytes = 2 * len(self._layers) * facts.kv_heads * facts.head_size * _F32_BYTES

    @classmethod
    def load(
        cls, path: Path, layer_begin: int, layer_end: int | None, progress: Progress = ignore_progress
    ) -> GgufRange:
        """Load a range from the (first) file of a model; if `layer_end` is None, it ends with the model's last layer.

        Raises:
            WorkerError: `unsupported_architecture` or `layers_out_of_range`.
            ArtifactError: the file is damaged or unusable.
        """
        header = read_header(path)
        facts = ModelFacts.of(header)
        end = facts.n_layers if layer_end is None else layer_end
        return cls(GgufWeights(header), facts, layer_begin, end, progress)

    def new_cache(self, cells: int) -> list[KeysAndValues]:
        """Return an empty KV cache for `cells` rows."""
        shape = (self.facts.kv_heads, cells, self.facts.head_size)
        return [KeysAndValues(torch.empty(shape), torch.empty(shape)) for _ in self._layers]

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Return the embeddings [rows, width] of token ids [rows].

        Raises:
            ValueError: the range does not have layer 0.
        """
        if self._embeddings is None:
            raise ValueError("this range takes hidden rows")
        return self._embeddings[token_ids]

    def run(self, hidden: torch.Tensor, begin: int, cache: Cache) -> torch.Tensor:
        """Run all layers over rows [rows, width] at positions from `begin` on, and return the output rows."""
        step = DecoderStep.at(self._rope, begin, len(hidden))
        for layer, cells in zip(self._layers, cast("Sequence[KeysAndValues]", cache), strict=True):
            hidden = layer(hidden, step, cells)
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits [rows, vocab_size] of the last layer's output rows [rows, width].

        Raises:
            ValueError: the range does not have the last layer.
        """
        if self._head is None:
            raise ValueError("this range gives hidden rows")
        norm, matrix = self._head
        return rms_norm(hidden, norm, self.facts.rms_epsilon) @ matrix.T

    def _take_embeddings(self, weights: GgufWeights) -> torch.Tensor:
        return weights.take("token_embd.weight", self.vocab_size, self.facts.width)

    def _take_head(self, weights: GgufWeights) -> tuple[torch.Tensor, torch.Tensor]:
        norm = weights.take("output_norm.weight", self.facts.width)
        if "output.weight" in weights:
            return norm, weights.take("output.weight", self.vocab_size, self.facts.width)
        tied = self._take_embeddings(weights) if self._embeddings is None else self._embeddings
        return norm, tied
