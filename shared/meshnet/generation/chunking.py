"""How a prompt is cut for a route, and how much of it may be in flight on each of its links.

A prompt of P rows in chunks of C passes the stages as a pipeline: while a stage computes a chunk, the stage before it
computes the next one. With t_i(C) = fixed_i + row_i * C the step of stage i, L_i the one-way latency of the link that
leads to it and x_i(C) = (C * b_i + h) / U_i what the link needs to take in a chunk of b_i bytes a row and h beside
them, the tail has computed the prompt after

    T(C) = sum_i (t_i(C) + L_i + x_i(C)) + (P / C - 1) * tau(C),     tau(C) = max_i max(t_i(C), x_i(C))

where the last chunk, of the rows that are left, counts as tau of so many.

Small chunks fill the pipe sooner, large ones pay the fixed parts less often; the C with the smallest T is taken. The
stages of one node compute in turn, so tau counts their steps together.

A frame's credit comes back once the next stage has computed it, and a stage begins a step only with credit for it. So
that the slowest part of the route never waits for credit, link i has to hold

    W_i = ceil((t_(i-1) + x_i + t_i + 2 L_i) / tau) + 1

frames: what begins at one end and has not been heard of at the other, and one for unequal steps.

Invariants: pure. What one session may hold on a link is bounded by `PREFILL_WINDOW_BYTES`, whatever anybody claims.
What is not known changes nothing: without times a prompt is cut into chunks of CHUNK_ROWS with WINDOW_FRAMES_MIN of
them in flight, and no window has fewer where its bytes allow them. Source: the bound of a pipeline with equal chunks;
docs/wire.md, Credits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from meshnet.session import Window

# Rows where no times are known, and on routes that promise equal bits, whose reference is cut like this; part of every
# engine's ubatch.
CHUNK_ROWS: Final = 128
# What is chosen from. Down to the smallest a step's time is a straight line in its rows, below it kernels work on tiles
# that are not full; the largest is the usual ubatch.
CHUNK_SIZES: Final = (8, 16, 24, 32, 48, 64, 96, 128, 256, 512)
# A step of more rows than CHUNK_ROWS takes this long at most, in ms: tokens of other sessions wait for it.
LONG_STEP_MS: Final = 250.0
# Rows of the chunk that a node times when it has loaded, where its engine and context take so many.
MEASURED_ROWS: Final = 128
# What a stage spends on a frame beside the engine, in ms: waking, packing, serialising, handing to the kernel. By
# `make bench-steps` it is a few tenths.
HANDLING_MS: Final = 0.3
# What a frame takes on a link beside its rows: header, residence, acknowledgement, the framing of HTTP/2 and TLS.
FRAME_BYTES: Final = 512
# A token id on the wire, at most. Source: protobuf's varints.
TOKEN_ID_BYTES: Final = 5

# One being computed, one waiting, one on its way: the fewest frames of a window.
WINDOW_FRAMES_MIN: Final = 3
WINDOW_FRAMES_MAX: Final = 48
# Tensor bytes in flight on one link of one session, at most.
PREFILL_WINDOW_BYTES: Final = 64 * 1024 * 1024
# The same of token ids, between Gateway and head; nodes hold so much beside what windows grant.
PROMPT_WINDOW_BYTES: Final = 32 * 1024

# Claims beyond these say nothing, or are cut: an hour for a step, a longer way round the earth than there is, a modem.
STEP_MAX_MS: Final = 3_600_000.0
LATENCY_MAX_MS: Final = 2_000.0
RATE_MIN_BYTES_PER_S: Final = 4 * 1024


@dataclass(frozen=True, slots=True)
class StageTime:
    """One stage's step of C rows: `fixed_ms + row_ms * C`.

    Attributes:
        rows_max: that its engine takes as one batch; 0: unknown.
        node: whose turn it shares; stages of one node never compute at once.
    """

    fixed_ms: float
    row_ms: float
    rows_max: int = 0
    node: str = ""

    def step_ms(self, rows: int) -> float:
        """A step of so many rows, with what handling its frame takes."""
        return self.fixed_ms + self.row_ms * rows + HANDLING_MS

    @property
    def is_known(self) -> bool:
        """Whether it says anything: a stage that needs no time at all has not been measured."""
        return 0 <= self.fixed_ms <= STEP_MAX_MS and 0 < self.row_ms <= STEP_MAX_MS


@dataclass(frozen=True, slots=True)
class SeamLink:
    """The way to a stage from the one before it, or from the Gateway to the head.

    Attributes:
        row_bytes: of one row's tensors; 0 between Gateway and head, where token ids alone travel.
        latency_ms: one way.
        bytes_per_s: that it takes in; None: unknown, and counted as no limit.
    """

    row_bytes: int
    latency_ms: float = 0.0
    bytes_per_s: float | None = None

    def transfer_ms(self, rows: int) -> float:
        """Until a chunk has been taken in."""
        if self.bytes_per_s is None or not self.bytes_per_s > 0:
            return 0.0
        chunk_bytes = rows * (self.row_bytes or TOKEN_ID_BYTES) + FRAME_BYTES
        return 1000.0 * chunk_bytes / max(self.bytes_per_s, RATE_MIN_BYTES_PER_S)

    @property
    def way_ms(self) -> float:
        """The latency, within what there can be."""
        return min(self.latency_ms, LATENCY_MAX_MS) if self.latency_ms > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a prompt passes: `links[i]` leads to `stages[i]`."""

    prompt_tokens: int
    stages: tuple[StageTime, ...]
    links: tuple[SeamLink, ...]

    @property
    def is_known(self) -> bool:
        """Whether the time of every stage is."""
        return all(stage.is_known for stage in self.stages)

    def interval_ms(self, rows: int) -> float:
        """What the slowest part of the route needs for a chunk: tau."""
        of_nodes: dict[object, float] = {}
        for index, stage in enumerate(self.stages):
            node = stage.node or index
            of_nodes[node] = of_nodes.get(node, 0.0) + stage.step_ms(rows)
        return max(*of_nodes.values(), *(link.transfer_ms(rows) for link in self.links))

    def prefill_ms(self, rows: int) -> float:
        """From the prompt's first chunk leaving until the tail has computed its last: T(C)."""
        rows = min(rows, self.prompt_tokens)
        whole, rest = divmod(self.prompt_tokens, rows)
        first_ms = sum(stage.step_ms(rows) for stage in self.stages)
        ways_ms = sum(link.way_ms + link.transfer_ms(rows) for link in self.links)
        last_ms = self.interval_ms(rest) if rest else 0.0
        return first_ms + ways_ms + (whole - 1) * self.interval_ms(rows) + last_ms

    def admissible_rows(self) -> list[int]:
        """The chunk sizes that may be chosen, ascending; CHUNK_ROWS is one of them where engines and bytes allow it."""
        fits = min(self.rows_that_fit, *(stage.rows_max or CHUNK_ROWS for stage in self.stages))
        sizes = [rows for rows in CHUNK_SIZES if rows <= fits]
        return [rows for rows in sizes if rows <= CHUNK_ROWS or self.interval_ms(rows) <= LONG_STEP_MS] or [fits]

    @property
    def rows_that_fit(self) -> int:
        """Rows of which two chunks at least fit into every window."""
        widest = max(link.row_bytes for link in self.links)
        return max(1, PREFILL_WINDOW_BYTES // (2 * widest)) if widest else max(CHUNK_SIZES)


@dataclass(frozen=True, slots=True)
class Chunking:
    """How a prompt goes over a route.

    Attributes:
        rows: of every chunk but the last.
        windows: of each link, Gateway -> head first.
        interval_ms: what the slowest part of the route needs for a chunk; 0: unknown.
    """

    rows: int
    windows: tuple[Window, ...]
    interval_ms: float


def measured_rows(rows_max: int, context_length: int) -> int:
    """Rows of the full chunk that nodes measure prompts with; 0 stands for unknown."""
    return max(1, min(MEASURED_ROWS, rows_max or MEASURED_ROWS, context_length or MEASURED_ROWS))


def split_step_ms(row_ms: float, chunk_ms: float, chunk_rows: int) -> tuple[float, float]:
    """The fixed part of a step and its part for each row, in ms, from a step of one row and one of `chunk_rows`.

    A chunk that took less than a single row says that rows cost nothing; then all of it is fixed.
    """
    if chunk_rows < 2:
        return 0.0, row_ms
    slope_ms = min(max(0.0, (chunk_ms - row_ms) / (chunk_rows - 1)), chunk_ms / chunk_rows)
    return max(0.0, row_ms - slope_ms), slope_ms


def choose_chunking(pipeline: Pipeline, *, is_exact: bool = False) -> Chunking:
    """The cut with the shortest time, and the windows that keep it flowing.

    Args:
        pipeline: the route.
        is_exact: the cut is kept, since an engine's bits may depend on the rows of a step; windows change no bits.
    """
    if is_exact or not pipeline.is_known:
        rows = min(CHUNK_ROWS, pipeline.rows_that_fit)
    else:
        # To the microsecond: of equally many chunks the largest are chosen, whatever the figures' last digits are.
        rows = min(pipeline.admissible_rows(), key=lambda one: (round(pipeline.prefill_ms(one), 3), -one))
    rows = min(rows, max(1, pipeline.prompt_tokens))
    interval_ms = pipeline.interval_ms(rows) if pipeline.is_known else 0.0
    windows = tuple(_window(pipeline, index, rows, interval_ms) for index in range(len(pipeline.links)))
    return Chunking(rows, windows, interval_ms)


def _window(pipeline: Pipeline, index: int, rows: int, interval_ms: float) -> Window:
    link = pipeline.links[index]
    frames = WINDOW_FRAMES_MIN
    if interval_ms > 0:
        ends = pipeline.stages[max(0, index - 1) : index + 1]
        round_ms = sum(stage.step_ms(rows) for stage in ends) + link.transfer_ms(rows) + 2 * link.way_ms
        frames = max(frames, math.ceil(round_ms / interval_ms) + 1)
    chunk_bytes = rows * link.row_bytes
    limit = PREFILL_WINDOW_BYTES // chunk_bytes if chunk_bytes else _prompt_frames(rows)
    frames = max(1, min(frames, WINDOW_FRAMES_MAX, limit))
    return Window(frames, min(frames * chunk_bytes, PREFILL_WINDOW_BYTES))


def _prompt_frames(rows: int) -> int:
    return max(WINDOW_FRAMES_MIN, PROMPT_WINDOW_BYTES // (rows * TOKEN_ID_BYTES + FRAME_BYTES))
