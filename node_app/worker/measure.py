"""How fast this shard computes, in the terms the site's planner counts with.

Invariants: times are the worker's own engine times of real steps (Probe), so the planner compares nodes by what they
do; medians, because a volunteer's machine does other things too.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from meshnet.errors import WorkerError
from meshnet.failure_codes import FailureCode
from meshnet.generation.chunking import MEASURED_ROWS

if TYPE_CHECKING:
    from node_app.worker.client import ProbeResult

MICROSECONDS_PER_MS = 1000.0
DECODE_REPEATS = 5
PREFILL_REPEATS = 2
TRACKED_PROBES = 9
PROBE_TIMEOUT_S = 120.0

# The engine takes fewer rows in one step than asked; a smaller chunk measures as well.
TOO_MANY_ROWS_CODES = frozenset({FailureCode.MESSAGE_TOO_LARGE, FailureCode.WRONG_SHAPE})


class Prober(Protocol):
    """What measuring needs of a worker."""

    async def probe(self, rows: int, timeout_s: float) -> ProbeResult:
        """Run `rows` fixed rows through the engine."""


@dataclass(frozen=True, slots=True)
class ShardShape:
    """What the times are spread over.

    Attributes:
        n_layers: layers of this shard.
        tail_share: bytes of norm and output head over all weight bytes read for one row; 0 where not owned.
        chunk_rows: rows of a full prefill chunk here.
    """

    n_layers: int
    tail_share: float
    chunk_rows: int = MEASURED_ROWS


@dataclass(frozen=True, slots=True)
class ShardSpeed:
    """Measured times in milliseconds; per layer and row where the name says so."""

    decode_ms_per_layer: float
    prefill_ms_per_layer: float
    tail_ms: float


def spread_times(shape: ShardShape, decode_us: float, prefill_us: float) -> ShardSpeed:
    """Spread two measured steps over the shard's layers.

    A decode step reads every weight once and is bound by that, so the tail's part of it is its part of the bytes. In a
    chunk only the last row needs the output head, so one tail time is taken off and the rest is spread over the rows.

    Args:
        shape: the shard.
        decode_us: engine time of a step of one row, microseconds.
        prefill_us: engine time of a step of `shape.chunk_rows` rows, microseconds.
    """
    decode_ms = decode_us / MICROSECONDS_PER_MS
    tail_ms = decode_ms * shape.tail_share
    chunk_ms = max(0.0, prefill_us / MICROSECONDS_PER_MS - tail_ms)
    layers = max(1, shape.n_layers)
    return ShardSpeed(
        decode_ms_per_layer=(decode_ms - tail_ms) / layers,
        prefill_ms_per_layer=chunk_ms / (layers * shape.chunk_rows),
        tail_ms=tail_ms,
    )


class SpeedTracker:
    """A shard's speed, kept true by every later probe of one row.

    What was measured at the start may have met a busy machine, and machines become busy later. Recent single rows say
    how fast the machine is now; chunks are assumed to have slowed down or sped up alike. Not thread-safe.
    """

    def __init__(self, shape: ShardShape, decode_us: list[int], prefill_us: float) -> None:
        self._shape = shape
        self._decode_us = deque(decode_us, maxlen=TRACKED_PROBES)
        self._first_decode_us = statistics.median(decode_us)
        self._prefill_us = prefill_us

    def observe(self, decode_us: int) -> None:
        """Take a later single-row step into account."""
        self._decode_us.append(decode_us)

    @property
    def speed(self) -> ShardSpeed:
        """The speed of the recent probes."""
        decode_us = statistics.median(self._decode_us)
        change = decode_us / self._first_decode_us if self._first_decode_us else 1.0
        return spread_times(self._shape, decode_us, self._prefill_us * change)


async def measure_shard(worker: Prober, shape: ShardShape) -> SpeedTracker:
    """Measure a loaded shard; takes DECODE_REPEATS + PREFILL_REPEATS + 2 steps.

    Raises:
        WorkerError: a step failed.
    """
    decode_us = await _times_us(worker, rows=1, repeats=DECODE_REPEATS)
    while True:
        try:
            prefill_us = await _times_us(worker, rows=shape.chunk_rows, repeats=PREFILL_REPEATS)
        except WorkerError as error:
            if error.code not in TOO_MANY_ROWS_CODES or shape.chunk_rows == 1:
                raise
            shape = replace(shape, chunk_rows=shape.chunk_rows // 2)
        else:
            return SpeedTracker(shape, decode_us, statistics.median(prefill_us))


async def _times_us(worker: Prober, rows: int, repeats: int) -> list[int]:
    await worker.probe(rows, PROBE_TIMEOUT_S)  # the first step of a shape builds its graph
    return [(await worker.probe(rows, PROBE_TIMEOUT_S)).compute_us for _ in range(repeats)]
