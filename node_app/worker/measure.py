"""Measures how fast the loaded shard computes, in the figures that the site's planner uses.

Invariants: times are engine times of real steps (Probe), measured by the worker itself. They are medians, because a
volunteer's machine has other work as well.
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

# The engine takes fewer rows in one step than were asked for; a smaller chunk can be measured instead.
TOO_MANY_ROWS_CODES = frozenset({FailureCode.MESSAGE_TOO_LARGE, FailureCode.WRONG_SHAPE})


class Prober(Protocol):
    """The part of `WorkerClient` that measuring uses."""

    async def probe(self, rows: int, timeout_s: float) -> ProbeResult:
        """Run `rows` rows, always the same ones, through the engine and return the time that they took."""


@dataclass(frozen=True, slots=True)
class ShardShape:
    """The sizes of a shard by which measured times are divided.

    Attributes:
        n_layers: number of layers of this shard.
        tail_share: bytes of norm and output head divided by all weight bytes read for one row; 0 if the shard owns
            neither.
        chunk_rows: rows of a full prefill chunk.
    """

    n_layers: int
    tail_share: float
    chunk_rows: int = MEASURED_ROWS


@dataclass(frozen=True, slots=True)
class ShardSpeed:
    """A shard's measured times.

    Attributes:
        decode_ms_per_layer: time of one layer in a step of one row.
        prefill_ms_per_layer: time of one layer in a step of a prompt chunk, divided by the chunk's rows.
        tail_ms: time of the output norm and the output head for one row.
    """

    decode_ms_per_layer: float
    prefill_ms_per_layer: float
    tail_ms: float


def spread_times(shape: ShardShape, decode_us: float, prefill_us: float) -> ShardSpeed:
    """Divide the times of two measured steps by the shard's layers and rows.

    A decode step takes as long as reading every weight once, so the tail's part of the time is its part of the bytes.
    In a chunk only the last row needs the output head, so one `tail_ms` is subtracted, and the rest is divided by the
    layers and rows.

    Args:
        shape: the shard's sizes.
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
    """A shard's speed, corrected by every later probe of one row.

    The machine may have been busy during the first measurement, or may become busy later. Recent probes of one row say
    how fast it is now; chunks are assumed to have become slower or faster by the same factor. Not thread-safe.

    Args:
        shape: the shard's sizes.
        decode_us: engine times of steps of one row, microseconds; at least one.
        prefill_us: engine time of a step of `shape.chunk_rows` rows, microseconds.
    """

    def __init__(self, shape: ShardShape, decode_us: list[int], prefill_us: float) -> None:
        self._shape = shape
        self._decode_us = deque(decode_us, maxlen=TRACKED_PROBES)
        self._first_decode_us = statistics.median(decode_us)
        self._prefill_us = prefill_us

    def observe(self, decode_us: int) -> None:
        """Add the engine time of a later step of one row, microseconds."""
        self._decode_us.append(decode_us)

    @property
    def speed(self) -> ShardSpeed:
        """The present speed, from the median time of the last TRACKED_PROBES steps of one row."""
        decode_us = statistics.median(self._decode_us)
        change = decode_us / self._first_decode_us if self._first_decode_us else 1.0
        return spread_times(self._shape, decode_us, self._prefill_us * change)


async def measure_shard(worker: Prober, shape: ShardShape) -> SpeedTracker:
    """Measure a loaded shard with DECODE_REPEATS steps of one row and PREFILL_REPEATS steps of a prompt chunk.

    If the engine takes no step of `shape.chunk_rows` rows, the chunk is halved until it does.

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
