"""The interface of a loaded layer range, independent of the kind of model file.

Invariants: float32 throughout. Hidden rows are [rows, width]. A cache belongs to one sequence and holds the keys and
values of its rows; if rows at `begin` are run again, those from there on are overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

# A sequence's rows on one range; made by `new_cache` and understood by the range that made it.
Cache = object


def ignore_progress(_fraction: float) -> None:
    """Ignore the progress of a load."""


class SharedFacts(Protocol):
    """Facts that all stages of one model share."""

    @property
    def architecture(self) -> str:
        """Name of the architecture as in GGUF files."""

    @property
    def n_layers(self) -> int:
        """Number of layers of the whole model."""

    @property
    def width(self) -> int:
        """The number of elements of a hidden row."""

    @property
    def context_length(self) -> int:
        """The number of positions for which the model was trained."""


class LayerRange(Protocol):
    """Layers [layer_begin, layer_end) with their weights. Owned by one thread.

    Attributes:
        libraries: names and versions of the computing libraries, since they affect the exact bits.
        vocab_size: the number of tokens in the model's vocabulary.
        cell_bytes: bytes that a sequence keeps for each of its rows.
        weights_bytes: bytes of the float32 weights in memory.
        bytes_read: bytes of the tensors that were read from files.
    """

    layer_begin: int
    layer_end: int
    libraries: str
    vocab_size: int
    cell_bytes: int
    weights_bytes: int
    bytes_read: int

    @property
    def facts(self) -> SharedFacts:
        """Facts of the whole model."""

    def new_cache(self, cells: int) -> Cache:
        """Return an empty KV cache for `cells` rows."""

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Return the embeddings [rows, width] of token ids [rows]. Allowed only if the range has layer 0."""

    def run(self, hidden: torch.Tensor, begin: int, cache: Cache) -> torch.Tensor:
        """Run all layers over rows [rows, width] at positions from `begin` on, and return the output rows.

        The cache must hold the rows of all positions before `begin`.
        """

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits [rows, vocab_size] of rows [rows, width]. Allowed only if the range has the last layer."""
