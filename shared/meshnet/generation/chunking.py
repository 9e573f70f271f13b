"""Chooses the chunks in which a prompt crosses a route, and how many of them may be in flight on each link.

A prompt of P rows in chunks of C passes the stages as a pipeline: while a stage computes a chunk, the stage before it
computes the next one. Let

    t_i(C) = fixed_i + row_i * C        be the step time of stage i,
    L_i                                 the one-way latency of the link to stage i,
    U_i                                 the rate of that link,
    x_i(C) = (C * b_i + h) / U_i        the time that it needs for a chunk of b_i bytes a row, and h for headers.

Then the tail has computed the prompt after

    T(C) = sum_i (t_i(C) + L_i + x_i(C)) + (P / C - 1) * tau(C),     tau(C) = max_i max(t_i(C), x_i(C))

where tau is the time that the slowest stage or link needs for a chunk. If the last chunk is shorter, it counts with the
tau of its own length. If several stages are on one node, they compute in turn, so tau counts the sum of their steps.

Small chunks fill the pipeline sooner; large ones pay the fixed parts less often. The C with the smallest T is chosen.

A frame's credit comes back once the next stage has computed it, and a stage begins a step only if it has credit for the
result. The slowest part of the route never waits for credit if as many as

    W_i = ceil((t_(i-1) + x_i + t_i + 2 L_i) / tau) + 1

frames may be in flight on link i: those sent in one round trip, and one more because steps differ in length.

Invariants: pure. A session never has more than `PREFILL_WINDOW_BYTES` in flight on a link, whatever a node claims. If
step times are not known, a prompt is cut into chunks of CHUNK_ROWS with WINDOW_FRAMES_MIN of them in flight. No window
has fewer frames unless they would be too many bytes. Source: the bound of a pipeline with equal chunks; docs/wire.md,
Credits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from meshnet.session import Window

# Rows of a chunk if step times are not known, and on routes that promise equal bits, since their reference is cut this
# way. Every engine's ubatch is at least as large.
CHUNK_ROWS: Final = 128
# The sizes that a chunk may have. From the smallest on, a step's time grows linearly with its rows; below it, kernels
# compute on partly filled tiles. The largest is the usual ubatch.
CHUNK_SIZES: Final = (8, 16, 24, 32, 48, 64, 96, 128, 256, 512)
# If a step has more rows than CHUNK_ROWS, it may take at most this long, in ms, since tokens of other sessions wait.
LONG_STEP_MS: Final = 250.0
# Rows of the chunk that a node times after loading, if its engine and context allow as many.
MEASURED_ROWS: Final = 128
# Time that a stage spends on a frame outside the engine, in ms: waking, packing, serialising and handing it to the
# kernel. `make bench-steps` measures a few tenths of a millisecond.
HANDLING_MS: Final = 0.3
# Bytes that a frame takes on a link besides its rows: header, residence, acknowledgement, and HTTP/2 and TLS framing.
FRAME_BYTES: Final = 512
# Largest size of a token id on the wire, in bytes. Source: protobuf's varints.
TOKEN_ID_BYTES: Final = 5

# The fewest frames of a window: one in computation, one waiting and one on its way.
WINDOW_FRAMES_MIN: Final = 3
WINDOW_FRAMES_MAX: Final = 48
# Tensor bytes that one session may have in flight on one link.
PREFILL_WINDOW_BYTES: Final = 64 * 1024 * 1024
# Bytes of token ids that a session may have in flight from the Gateway to the head; nodes reserve this much on top of
# the windows that they grant.
PROMPT_WINDOW_BYTES: Final = 32 * 1024

# Claims beyond these bounds are ignored or cut: a step of an hour, a latency longer than any on earth, a modem's rate.
STEP_MAX_MS: Final = 3_600_000.0
LATENCY_MAX_MS: Final = 2_000.0
RATE_MIN_BYTES_PER_S: Final = 4 * 1024


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long one stage takes for a step: `fixed_ms`, and `row_ms` more for each row.

    Attributes:
        rows_max: most rows that the stage's engine takes in one batch; 0 if unknown.
        node: the node that the stage runs on; stages of one node never compute at once.
    """

    fixed_ms: float
    row_ms: float
    rows_max: int = 0
    node: str = ""

    def step_ms(self, rows: int) -> float:
        """Return the time of a step of `rows` rows, with the handling of its frame, in ms."""
        return self.fixed_ms + self.row_ms * rows + HANDLING_MS

    @property
    def is_known(self) -> bool:
        """Tell if both times are known and plausible. If `row_ms` is 0, the stage has not been measured."""
        return 0 <= self.fixed_ms <= STEP_MAX_MS and 0 < self.row_ms <= STEP_MAX_MS


@dataclass(frozen=True, slots=True)
class SeamLink:
    """The link to a stage from the stage before it, or from the Gateway to the head.

    Attributes:
        row_bytes: bytes of one row's tensors; 0 from the Gateway to the head, since only token ids travel there.
        latency_ms: time that a message takes from one end to the other.
        bytes_per_s: rate of the link; None if it is unknown, which counts as unlimited.
    """

    row_bytes: int
    latency_ms: float = 0.0
    bytes_per_s: float | None = None

    def transfer_ms(self, rows: int) -> float:
        """Return the time in ms to send a chunk of `rows` rows, without the latency; 0 if the rate is unknown."""
        if self.bytes_per_s is None or not self.bytes_per_s > 0:
            return 0.0
        chunk_bytes = rows * (self.row_bytes or TOKEN_ID_BYTES) + FRAME_BYTES
        return 1000.0 * chunk_bytes / max(self.bytes_per_s, RATE_MIN_BYTES_PER_S)

    @property
    def way_ms(self) -> float:
        """The latency in ms, but at least 0 and at most LATENCY_MAX_MS."""
        return min(self.latency_ms, LATENCY_MAX_MS) if self.latency_ms > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages and links that a prompt passes; `links[i]` leads to `stages[i]`."""

    prompt_tokens: int
    stages: tuple[StageTime, ...]
    links: tuple[SeamLink, ...]

    @property
    def is_known(self) -> bool:
        """Tell if the step time of every stage is known."""
        return all(stage.is_known for stage in self.stages)

    def interval_ms(self, rows: int) -> float:
        """Return the time in ms that the slowest node or link needs for a chunk: tau at the top of this file."""
        of_nodes: dict[object, float] = {}
        for index, stage in enumerate(self.stages):
            node = stage.node or index
            of_nodes[node] = of_nodes.get(node, 0.0) + stage.step_ms(rows)
        return max(*of_nodes.values(), *(link.transfer_ms(rows) for link in self.links))

    def prefill_ms(self, rows: int) -> float:
        """Return the time in ms from sending the first chunk until the tail has computed the last one: T(C) above."""
        rows = min(rows, self.prompt_tokens)
        whole, rest = divmod(self.prompt_tokens, rows)
        first_ms = sum(stage.step_ms(rows) for stage in self.stages)
        ways_ms = sum(link.way_ms + link.transfer_ms(rows) for link in self.links)
        last_ms = self.interval_ms(rest) if rest else 0.0
        return first_ms + ways_ms + (whole - 1) * self.interval_ms(rows) + last_ms

    def admissible_rows(self) -> list[int]:
        """Return the chunk sizes to choose from, in rows, ascending.

        They fit the engines and the windows, and those above CHUNK_ROWS take at most LONG_STEP_MS. If none of
        CHUNK_SIZES fits, the only size is the largest number of rows that does.
        """
        fits = min(self.rows_that_fit, *(stage.rows_max or CHUNK_ROWS for stage in self.stages))
        sizes = [rows for rows in CHUNK_SIZES if rows <= fits]
        return [rows for rows in sizes if rows <= CHUNK_ROWS or self.interval_ms(rows) <= LONG_STEP_MS] or [fits]

    @property
    def rows_that_fit(self) -> int:
        """Most rows that a chunk may have, so that two such chunks fit into PREFILL_WINDOW_BYTES on every link."""
        widest = max(link.row_bytes for link in self.links)
        return max(1, PREFILL_WINDOW_BYTES // (2 * widest)) if widest else max(CHUNK_SIZES)


@dataclass(frozen=True, slots=True)
class Chunking:
    """The chunks and windows of one prompt on one route.

    Attributes:
        rows: rows of every chunk except the last, which may be shorter.
        windows: one for each link; the link from the Gateway to the head comes first.
        interval_ms: time that the slowest node or link of the route needs for a chunk; 0 if unknown.
    """

    rows: int
    windows: tuple[Window, ...]
    interval_ms: float


def measured_rows(rows_max: int, context_length: int) -> int:
    """Return the rows of the prompt chunk whose time a node measures after loading: MEASURED_ROWS, or fewer.

    Args:
        rows_max: most rows that the engine takes in one batch; 0 if unknown.
        context_length: most positions of a session; 0 if unknown.
    """
    return max(1, min(MEASURED_ROWS, rows_max or MEASURED_ROWS, context_length or MEASURED_ROWS))


def split_step_ms(row_ms: float, chunk_ms: float, chunk_rows: int) -> tuple[float, float]:
    """Return the fixed part of a step's time and the part for each row, both in ms.

    Args:
        row_ms: measured time of a step of one row.
        chunk_ms: measured time of a step of `chunk_rows` rows.
        chunk_rows: rows of the chunk. With fewer than 2, all of `row_ms` counts as the part for each row.

    If the chunk took less time than the single row, all of `row_ms` is fixed, and the part for each row is 0.
    """
    if chunk_rows < 2:
        return 0.0, row_ms
    slope_ms = min(max(0.0, (chunk_ms - row_ms) / (chunk_rows - 1)), chunk_ms / chunk_rows)
    return max(0.0, row_ms - slope_ms), slope_ms


def choose_chunking(pipeline: Pipeline, *, is_exact: bool = False) -> Chunking:
    """Choose the chunk size with the shortest prefill, and the windows that keep the pipeline full.

    Args:
        pipeline: the prompt's length, and the times of the route.
        is_exact: if true, the route promises equal bits. Then chunks have CHUNK_ROWS rows, since the bits of a result
            may depend on the number of rows in a step.
    """
    if is_exact or not pipeline.is_known:
        rows = min(CHUNK_ROWS, pipeline.rows_that_fit)
    else:
        # Times are compared to the microsecond. Among equal ones the largest chunk wins, so rounding cannot decide.
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
