"""What TorchEngine asks of a loaded layer range, whatever kind of file it came from.

Invariants: float32 throughout; hidden rows are [rows, width]; a cache belongs to one sequence and holds as many rows as
were run, those from `begin` on being overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

# A sequence's rows on one range; made by `new_cache` and understood by the range that made it.
Cache = object


def ignore_progress(_fraction: float) -> None:
    """Of a load that nobody watches."""


class SharedFacts(Protocol):
    """What stages of one model have in common."""

    @property
    def architecture(self) -> str:
        """As GGUF files name it."""

    @property
    def n_layers(self) -> int:
        """Of the whole model."""

    @property
    def width(self) -> int:
        """Elements of a hidden row."""

    @property
    def context_length(self) -> int:
        """Positions that the model was made for."""


class LayerRange(Protocol):
    """Layers [layer_begin, layer_end) with their weights. Owned by one thread.

    Attributes:
        libraries: what computes, with versions: part of what decides bits.
        vocab_size: of the whole model.
        cell_bytes: what a sequence holds for each of its rows.
        weights_bytes: of the float32 weights in memory.
        bytes_read: of the files' tensors.
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
        """Of the whole model."""

    def new_cache(self, cells: int) -> Cache:
        """An empty cache of `cells` rows."""

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """The head's input rows: [rows] ids of the vocabulary to [rows, width]. The head's alone."""

    def run(self, hidden: torch.Tensor, begin: int, cache: Cache) -> torch.Tensor:
        """All layers over [rows, width] at positions from `begin` on, which the cache reaches."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The output head over [rows, width]: [rows, vocab_size]. The tail's alone."""
