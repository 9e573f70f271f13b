"""Computes the memory that a range of layers takes on a machine: weights, caches of the sessions, and buffers.

Invariant: pure. Weights and caches are exact for the pinned llama.cpp; the buffers are an upper estimate. If a worker
saves states to rewind sessions, it also keeps a few rows. These are not counted, since the estimate leaves far more
room than they take.
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
# A graph's buffers grow with rows and width, not with depth. They hold a fixed part, _COMPUTE_WIDTHS f32 rows of the
# hidden width per row, and masks that grow with the positions of the sessions. Fitted to the pinned tree: at width 576
# and 2,048 positions 102 MiB were measured and the rule gives 129 MiB; at width 4,096 and four sessions of 131,072
# positions, 1,244 MiB and 1,728 MiB.
_COMPUTE_BASE_BYTES: Final = 64 * 1024 * 1024
_COMPUTE_WIDTHS: Final = 48
_COMPUTE_BYTES_PER_ROW_AND_CELL: Final = 8
_COMPUTE_BYTES_PER_CELL: Final = 1536
# Number of states that a worker saves of each session, and the largest size of all together. States are saved only if
# the load asks for it (LoadRequest.keep_rewind_states). Source: native/src/engine/sequence_history.h,
# rewinding_engine.h.
KEPT_STATES: Final = 2
KEPT_STATE_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Load:
    """Sessions that a shard must hold at the same time: `sequences` sessions of `context_length` positions."""

    context_length: int
    sequences: int


@dataclass(frozen=True, slots=True)
class RangeMemory:
    """Memory of layers [layer_begin, layer_end) in bytes.

    Attributes:
        cache_bytes: caches of all sessions together.
        rewind_bytes: states that a worker saves to rewind sessions, if it is asked to when it loads the shard. Today no
            node asks for them, so they are not part of the total.
        compute_bytes: upper estimate of the buffers that computing needs.
    """

    layer_begin: int
    layer_end: int
    weight_bytes: int
    cache_bytes: int
    rewind_bytes: int
    compute_bytes: int

    @property
    def total_bytes(self) -> int:
        """Sum of weights, caches and buffers, without saved states."""
        return self.weight_bytes + self.cache_bytes + self.compute_bytes


def compute_bytes(width: int, load: Load) -> int:
    """Return an upper estimate of the bytes of the buffers that computing needs. Hidden rows have `width` elements."""
    per_row = width * _F32_BYTES * _COMPUTE_WIDTHS + load.context_length * _COMPUTE_BYTES_PER_ROW_AND_CELL
    per_cell = load.context_length * load.sequences * _COMPUTE_BYTES_PER_CELL
    return _COMPUTE_BASE_BYTES + UBATCH_ROWS * per_row + per_cell


def cache_bytes(layers: Iterable[LayerCache], load: Load) -> int:
    """Return the bytes that a worker allocates for the caches of these layers, for all sessions of `load`."""
    return sum(layer.allocated_bytes(load.context_length, load.sequences) for layer in layers)


def rewind_bytes(layers: Iterable[LayerCache], sequences: int) -> int:
    """Return the bytes of the states that are saved to rewind sessions; 0 if the caches can simply be truncated."""
    return _kept_bytes(sum(layer.kept_state_bytes for layer in layers), sequences)


def _kept_bytes(state_bytes: int, sequences: int) -> int:
    return min(KEPT_STATE_BYTES_MAX, sequences * KEPT_STATES * state_bytes)


class ModelMemory:
    """Computes the memory of any range of a model's layers, for the sessions of one `Load`.

    `width` is the number of elements of a hidden row.
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
        """Return the memory of layers [layer_begin, layer_end)."""
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
