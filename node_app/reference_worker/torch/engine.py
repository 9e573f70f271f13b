"""A loaded layer range and its sequences.

Invariants: each row of a sequence is computed once and its keys and values stay in the KV cache, so that a decode step
takes one row. If a step is refused, nothing changes. Sequences share only the weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from meshnet.errors import WorkerError
from meshnet.failure_codes import FailureCode
from node_app.reference_worker.torch.gguf_range import GgufRange
from node_app.reference_worker.torch.layer_range import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from node_app.reference_worker.sessions.program import Progress
    from node_app.reference_worker.torch.layer_range import LayerRange, SharedFacts


class TorchEngine:
    """Computes layers [layer_begin, layer_end) of a model. Owned by one thread."""

    def __init__(self, layers: LayerRange) -> None:
        self.range = layers

    @classmethod
    def load(
        cls,
        path: Path,
        layer_begin: int = 0,
        layer_end: int | None = None,
        progress: Progress = ignore_progress,
    ) -> TorchEngine:
        """Load the weights of a layer range.

        Args:
            path: the (first) GGUF file of a model, or a folder with config.json and *.safetensors.
            layer_begin: the first layer.
            layer_end: one past the last layer; None means all layers from `layer_begin` on.
            progress: called after each layer with the fraction of the layers that is loaded; may raise to end the load.

        Raises:
            WorkerError: `unsupported_architecture`, `layers_out_of_range` or `missing_extra`.
            ArtifactError: the file or folder is damaged or unusable.
        """
        if not path.is_dir():
            return cls(GgufRange.load(path, layer_begin, layer_end, progress))
        # Transformers is an extra of its own, since GGUF files load without it.
        try:
            from node_app.reference_worker.torch.safetensors_range import SafetensorsRange  # noqa: PLC0415 - see above
        except ModuleNotFoundError as error:
            message = f"folders of safetensors need the extra [transformers]: there is no {error.name}"
            raise WorkerError("missing_extra", "Not installed", message) from error
        return cls(SafetensorsRange.load(path, layer_begin, layer_end, progress))

    @property
    def facts(self) -> SharedFacts:
        """Facts of the whole model, not only of the loaded layers."""
        return self.range.facts

    @property
    def vocab_size(self) -> int:
        """The number of tokens in the model's vocabulary."""
        return self.range.vocab_size

    @property
    def layer_begin(self) -> int:
        """The first loaded layer."""
        return self.range.layer_begin

    @property
    def layer_end(self) -> int:
        """One past the last loaded layer."""
        return self.range.layer_end

    @property
    def weights_bytes(self) -> int:
        """Bytes of the float32 weights in memory."""
        return self.range.weights_bytes

    @property
    def bytes_read(self) -> int:
        """Bytes of the tensors that were read from files."""
        return self.range.bytes_read

    @property
    def cell_bytes(self) -> int:
        """Bytes that one KV cell takes in all loaded layers together."""
        return self.range.cell_bytes

    @property
    def owns_input(self) -> bool:
        """Whether this is the head, which takes token ids."""
        return self.layer_begin == 0

    @property
    def owns_output(self) -> bool:
        """Whether this is the tail, which gives logits."""
        return self.layer_end == self.facts.n_layers

    def open(self, cells: int) -> TorchSequence:
        """Return an empty sequence for at most `cells` rows."""
        return TorchSequence(self, cells)

    def embed(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Return the embeddings [rows, width] of token ids, which are the head's input rows.

        Raises:
            WorkerError: `bad_token_id`; `not_ready`: this is not the head.
        """
        if not self.owns_input:
            raise WorkerError(FailureCode.NOT_READY, "Not the head", "this shard takes hidden rows")
        if not all(0 <= token < self.vocab_size for token in token_ids):
            raise WorkerError(
                FailureCode.BAD_TOKEN_ID, "Bad token id", f"a token id outside the {self.vocab_size} known ones"
            )
        with torch.inference_mode():
            return self.range.embed(torch.tensor(token_ids, dtype=torch.long))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits [rows, vocab_size] of the last layer's output rows [rows, width].

        Raises:
            WorkerError: `not_ready`: this is not the tail.
        """
        if not self.owns_output:
            raise WorkerError(FailureCode.NOT_READY, "Not the tail", "this shard gives hidden rows")
        with torch.inference_mode():
            return self.range.logits(hidden)


class TorchSequence:
    """The KV cache of one session on one shard. Not thread-safe."""

    def __init__(self, engine: TorchEngine, cells: int) -> None:
        self.engine = engine
        self._cells = cells
        self._cache = engine.range.new_cache(cells)
        self._length = 0

    @property
    def length(self) -> int:
        """The number of positions in the KV cache."""
        return self._length

    def truncate(self, length: int) -> None:
        """Forget the positions from `length` on.

        Raises:
            ValueError: `length` is negative, or larger than the number of positions in the cache.
        """
        if not 0 <= length <= self._length:
            raise ValueError(f"cannot truncate {self._length} positions to {length}")
        self._length = length

    def step_tokens(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Embed the next token ids of the sequence, run the layers over them and return the output rows [rows, width].

        Raises:
            WorkerError: `bad_token_id`, `kv_exhausted`, or `not_ready` if this is not the head.
        """
        return self.step_rows(self.engine.embed(token_ids))

    def step_rows(self, hidden: torch.Tensor) -> torch.Tensor:
        """Run the layers over the sequence's next rows, from the previous stage; input and output are [rows, width].

        Raises:
            WorkerError: `wrong_shape`, `not_finite` or `kv_exhausted`.
        """
        if hidden.ndim != 2 or hidden.shape[1] != self.engine.facts.width or not len(hidden):
            raise WorkerError(FailureCode.WRONG_SHAPE, "Bad rows", f"rows of the shape {tuple(hidden.shape)}")
        if not bool(torch.isfinite(hidden).all()):
            raise WorkerError(FailureCode.NOT_FINITE, "Bad rows", "a row holds a value that is not finite")
        if self._length + len(hidden) > self._cells:
            raise WorkerError(
                FailureCode.KV_EXHAUSTED, "No cells left", f"{self._cells} cells are too few for more rows"
            )
        with torch.inference_mode():
            out = self.engine.range.run(hidden, self._length, self._cache)
        self._length += len(hidden)
        return out
