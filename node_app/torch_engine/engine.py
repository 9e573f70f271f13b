"""A loaded layer range and its sequences.

Invariants: a sequence's rows are computed once and kept in its KV cache, so that a decode step takes one row; a step
that is refused changes nothing; sequences share weights and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from meshnet.artifact.gguf import read_header
from meshnet.errors import WorkerError
from node_app.torch_engine.decoder import DecoderLayer, KeysAndValues, Rope, Step, rms_norm
from node_app.torch_engine.gguf_weights import GgufWeights
from node_app.torch_engine.model_facts import ModelFacts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_F32_BYTES: Final = 4


class TorchEngine:
    """Layers [layer_begin, layer_end) of a model. Owned by one thread.

    Attributes:
        weights_bytes: of the float32 weights in memory.
        bytes_read: of the file's tensors.
    """

    def __init__(self, weights: GgufWeights, facts: ModelFacts, layer_begin: int, layer_end: int) -> None:
        if not 0 <= layer_begin < layer_end <= facts.n_layers:
            message = f"layers {layer_begin}:{layer_end} of {facts.n_layers}"
            raise WorkerError("layers_out_of_range", "No such layers", message)
        self.facts = facts
        self.layer_begin = layer_begin
        self.layer_end = layer_end
        self.vocab_size = weights.shape("token_embd.weight")[0]
        half = facts.rope_size // 2
        factors = weights.take("rope_freqs.weight", half) if "rope_freqs.weight" in weights else None
        self._rope = Rope(facts, factors)
        self._layers = [DecoderLayer(facts, self._rope, weights, layer) for layer in range(layer_begin, layer_end)]
        weights.refuse_untaken(layer_begin, layer_end)
        self._embeddings = self._take_embeddings(weights) if self.owns_input else None
        self._head = self._take_head(weights) if self.owns_output else None
        self.bytes_read = weights.bytes_read
        self.weights_bytes = weights.elements_read * _F32_BYTES

    @classmethod
    def load(cls, path: Path, layer_begin: int = 0, layer_end: int | None = None) -> TorchEngine:
        """Load a range from the (first) file of a model; `layer_end` None: to the last layer.

        Raises:
            WorkerError: `unsupported_architecture` or `layers_out_of_range`.
            ArtifactError: the file is wrong.
        """
        header = read_header(path)
        facts = ModelFacts.of(header)
        return cls(GgufWeights(header), facts, layer_begin, facts.n_layers if layer_end is None else layer_end)

    @property
    def owns_input(self) -> bool:
        """Whether this is the head, which takes token ids."""
        return self.layer_begin == 0

    @property
    def owns_output(self) -> bool:
        """Whether this is the tail, which gives logits."""
        return self.layer_end == self.facts.n_layers

    @property
    def cell_bytes(self) -> int:
        """What a sequence holds for each of its cells."""
        return 2 * len(self._layers) * self.facts.kv_heads * self.facts.head_size * _F32_BYTES

    def open(self, cells: int) -> TorchSequence:
        """Begin a sequence of `cells` rows at most."""
        return TorchSequence(self, cells)

    def embed(self, token_ids: Sequence[int]) -> torch.Tensor:
        """The head's input rows: [rows, width].

        Raises:
            WorkerError: `bad_token_id`; `not_ready`: this is not the head.
        """
        if self._embeddings is None:
            raise WorkerError("not_ready", "Not the head", "this shard takes hidden rows")
        if not all(0 <= token < self.vocab_size for token in token_ids):
            raise WorkerError("bad_token_id", "Bad token id", f"a token id outside the {self.vocab_size} known ones")
        return self._embeddings[torch.tensor(token_ids, dtype=torch.long)]

    def run_layers(self, hidden: torch.Tensor, begin: int, caches: Sequence[KeysAndValues]) -> torch.Tensor:
        """Run all layers over [rows, width] at positions from `begin` on."""
        step = Step.at(self._rope, begin, len(hidden))
        with torch.inference_mode():
            for layer, cache in zip(self._layers, caches, strict=True):
                hidden = layer(hidden, step, cache)
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The tail's logits of [rows, width]: [rows, vocab_size].

        Raises:
            WorkerError: `not_ready`: this is not the tail.
        """
        if self._head is None:
            raise WorkerError("not_ready", "Not the tail", "this shard gives hidden rows")
        norm, matrix = self._head
        with torch.inference_mode():
            return rms_norm(hidden, norm, self.facts.rms_epsilon) @ matrix.T

    def new_caches(self, cells: int) -> list[KeysAndValues]:
        """Empty caches, one a layer."""
        shape = (self.facts.kv_heads, cells, self.facts.head_size)
        return [KeysAndValues(torch.empty(shape), torch.empty(shape)) for _ in self._layers]

    def _take_embeddings(self, weights: GgufWeights) -> torch.Tensor:
        return weights.take("token_embd.weight", self.vocab_size, self.facts.width)

    def _take_head(self, weights: GgufWeights) -> tuple[torch.Tensor, torch.Tensor]:
        norm = weights.take("output_norm.weight", self.facts.width)
        if "output.weight" in weights:
            return norm, weights.take("output.weight", self.vocab_size, self.facts.width)
        tied = self._take_embeddings(weights) if self._embeddings is None else self._embeddings
        return norm, tied


class TorchSequence:
    """One session's rows on one shard. Not thread-safe."""

    def __init__(self, engine: TorchEngine, cells: int) -> None:
        self.engine = engine
        self._cells = cells
        self._caches = engine.new_caches(cells)
        self._length = 0

    @property
    def length(self) -> int:
        """Positions held."""
        return self._length

    def truncate(self, length: int) -> None:
        """Forget positions from `length` on.

        Raises:
            ValueError: fewer positions are held.
        """
        if not 0 <= length <= self._length:
            raise ValueError(f"cannot truncate {self._length} positions to {length}")
        self._length = length

    def step_tokens(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Run the head's layers over new tokens: [rows, width].

        Raises:
            WorkerError: `bad_token_id`, `kv_exhausted`, or `not_ready` where this is not the head.
        """
        return self.step_rows(self.engine.embed(token_ids))

    def step_rows(self, hidden: torch.Tensor) -> torch.Tensor:
        """Run the layers over the previous stage's rows: [rows, width] in and out.

        Raises:
            WorkerError: `wrong_shape`, `not_finite` or `kv_exhausted`.
        """
        if hidden.ndim != 2 or hidden.shape[1] != self.engine.facts.width or not len(hidden):
            raise WorkerError("wrong_shape", "Bad rows", f"rows of the shape {tuple(hidden.shape)}")
        if not bool(torch.isfinite(hidden).all()):
            raise WorkerError("not_finite", "Bad rows", "a row holds a value that is not finite")
        if self._length + len(hidden) > self._cells:
            raise WorkerError("kv_exhausted", "No cells left", f"{self._cells} cells are too few for more rows")
        out = self.engine.run_layers(hidden, self._length, self._caches)
        self._length += len(hidden)
        return out
