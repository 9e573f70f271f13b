"""What a range of layers takes on a machine: weights, what is kept of the sessions, and buffers.

Invariant: pure. Weights and caches are exact for the pinned tree; buffers are an estimate from above, fitted to it.
The rows that a worker keeps beside its states to go back to are far less than what that estimate is too large by.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from meshnet.artifact.model.caches import UBATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.artifact.model.caches import LayerCache, ModelCaches
    from meshnet.artifact.model.inventory import Inventory

_F32_BYTES: Final = 4
# A graph's buffers grow with rows and width, not with depth: about so many f32 rows of the hidden width at once, beside
# a fixed part and what masks take for the positions that sessions may have. Fitted to the pinned tree: 102 MiB measured
# at width 576 and 2,048 positions, 129 MiB by this rule; 1,244 MiB at width 4,096 and four sessions of 131,072, 1,728
# MiB by it.
_COMPUTE_BASE_BYTES: Final = 64 * 1024 * 1024
_COMPUTE_WIDTHS: Final = 48
_COMPUTE_BYTES_PER_ROW_AND_CELL: Final = 8
_COMPUTE_BYTES_PER_CELL: Final = 1536
# States that a worker keeps of each session, and of all together. Source: native/src/engine/sequence_history.h,
# rewinding_engine.h. Only a load that asks for them (LoadRequest.keep_rewind_states) has any.
KEPT_STATES: Final = 2
KEPT_STATE_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Load:
    """What a shard is to hold: so many sessions of so many positions at once."""

    context_length: int
    sequences: int


@dataclass(frozen=True, slots=True)
class RangeMemory:
    """What `[layer_begin, layer_end)` takes, in bytes.

    `rewind_bytes` is what a load that asks for states to go back to takes beside the total; no node asks today.
    """

    layer_begin: int
    layer_end: int
    weight_bytes: int
    cache_bytes: int
    rewind_bytes: int
    compute_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it, without states to go back to."""
        return self.weight_bytes + self.cache_bytes + self.compute_bytes


def compute_bytes(width: int, load: Load) -> int:
    """Return what a graph's buffers take, estimated from above."""
    per_row = width * _F32_BYTES * _COMPUTE_WIDTHS + load.context_length * _COMPUTE_BYTES_PER_ROW_AND_CELL
    per_cell = load.context_length * load.sequences * _COMPUTE_BYTES_PER_CELL
    return _COMPUTE_BASE_BYTES + UBATCH_ROWS * per_row + per_cell


def cache_bytes(layers: Iterable[LayerCache], load: Load) -> int:
    """Return what a worker allocates for the sessions of a load."""
    return sum(layer.allocated_bytes(load.context_length, load.sequences) for layer in layers)


def rewind_bytes(layers: Iterable[LayerCache], sequences: int) -> int:
    """Return what a load that asks for it keeps to go back to if memories cannot be cut off; 0 for plain attention."""
    return _kept_bytes(sum(layer.kept_state_bytes for layer in layers), sequences)


def _kept_bytes(state_bytes: int, sequences: int) -> int:
    return min(KEPT_STATE_BYTES_MAX, sequences * KEPT_STATES * state_bytes)


class ModelMemory:
    """A model under a load; answers for any range of its layers.

    `width` is of a hidden row, in elements.
    """

    def __init__(self, inventory: Inventory, caches: ModelCaches, width: int, load: Load) -> None:
        self._inventory = inventory
        self.n_layers: Final = len(inventory.layers)
        self._sequences = load.sequences
        self._compute_bytes = compute_bytes(width, load)
        per_layer = (layer.allocated_bytes(load.context_length, load.sequences) for layer in caches.layers)
        self._caches_before = [0, *accumulate(per_layer)]
        self._states_before = [0, *accumulate(layer.kept_state_bytes for layer in caches.layers)]
        self._weights_before = [0, *accumulate(layer.size_bytes for layer in inventory.layers)]

    def of(self, layer_begin: int, layer_end: int) -> RangeMemory:
        """What the range takes."""
        return RangeMemory(
            layer_begin,
            layer_end,
            weight_bytes=self._weights_before[layer_end]
            - self._weights_before[layer_begin]
            + self._inventory.beside_bytes(layer_begin, layer_end),
            cache_bytes=self._caches_before[layer_end] - self._caches_before[layer_begin],
            rewind_bytes=_kept_bytes(
                self._states_before[layer_end] - self._states_before[layer_begin], self._sequences
            ),
            compute_bytes=self._compute_bytes,
        )
