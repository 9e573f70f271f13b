"""Whether a loaded shard computes what its model's golden probe says.

Invariants: the rows go through the worker as a route's do, once all in one step, as a prompt, and once row by row, as
tokens, because engines compute the two with different kernels; both must be near enough. What only says that nobody
could be asked (a worker that is gone or busy) is an error, everything else a verdict. Rows are compared in a thread:
the logits of a large vocabulary take so long that connections would miss their beats.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from meshnet.errors import WorkerError
from meshnet.failure_codes import FailureCode
from meshnet.golden.comparing import RowErrors, Tolerance, compare_logits, compare_rows, tolerance_for
from meshnet.golden.probe import GoldenRows
from meshnet.v1 import frame_pb2, worker_pb2
from node_app.system.blocking import run_blocking
from node_app.worker.refusal import WORKER_LOST, WORKER_TIMEOUT

if TYPE_CHECKING:
    from meshnet.golden.probe import GoldenProbe
    from node_app.settings import LayerSpan

STEP_TIMEOUT_S: Final = 120.0
# A sequence is given back a moment after its probe has been answered.
BUSY_TRIES: Final = 20
BUSY_WAIT_S: Final = 0.1
SEQUENCE_TAKEN: Final = FailureCode.TOO_MANY_SESSIONS
NOT_ASKED: Final = frozenset(
    {
        WORKER_LOST,
        WORKER_TIMEOUT,
        SEQUENCE_TAKEN,
        FailureCode.NOT_READY,
        FailureCode.STEP_TIMEOUT,
        FailureCode.CANCELLED,
    }
)


class RowRunner(Protocol):
    """What the test needs of a worker."""

    async def run_rows(self, request: worker_pb2.ProbeRequest, timeout_s: float) -> frame_pb2.Tensor:
        """Run rows through the engine and return the rows that they give."""


@dataclass(frozen=True, slots=True)
class ShardToProve:
    """What is to be proven: layers of the probe's model, on a backend as the shard's exact class names it."""

    layers: LayerSpan
    backend: str


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """The verdict, with its figures for people."""

    is_passed: bool
    words: str


async def prove_shard(worker: RowRunner, shard: ShardToProve, golden: GoldenProbe) -> SelfTestResult:
    """Compare a loaded shard with the golden rows at both its ends.

    Raises:
        ArtifactError: `no_golden_rows`: the probe has none at an end of the shard.
        WorkerError: the worker is gone, or has no time; nothing is known of its rows.
    """
    tolerance = tolerance_for(golden.backend, shard.backend)
    golden.require_ends(shard.layers.layer_begin, shard.layers.layer_end)
    try:
        at_once = await compare_shard(worker, shard.layers, golden, step_rows=0)
        one_by_one = await compare_shard(worker, shard.layers, golden, step_rows=1)
    except WorkerError as error:
        if error.code in NOT_ASKED:
            raise
        return SelfTestResult(is_passed=False, words=f"the step failed: {error.message} [{error.code}]")
    except ValueError as error:
        return SelfTestResult(is_passed=False, words=f"it gave {error}")
    is_passed = at_once.is_within(tolerance) and one_by_one.is_within(tolerance)
    return SelfTestResult(is_passed, _words(at_once, one_by_one, tolerance))


async def compare_shard(worker: RowRunner, layers: LayerSpan, golden: GoldenProbe, step_rows: int) -> RowErrors:
    """Run the golden rows in steps of `step_rows` (0: one step) and compare what they give.

    Raises:
        WorkerError: the worker failed or refused.
        ValueError: what it gave has another shape.
    """
    taken = golden.before(layers.layer_begin)
    found = await run_golden(worker, golden.token_ids, taken, step_rows)
    expected = golden.after(layers.layer_end)
    if layers.layer_end == golden.n_layers:
        return await run_blocking(lambda: compare_logits(found, expected), "compare")
    return await run_blocking(lambda: compare_rows(found, expected, taken), "compare")


async def run_golden(
    worker: RowRunner, token_ids: tuple[int, ...], taken: GoldenRows | None, step_rows: int
) -> GoldenRows:
    """Run token ids, and the rows that go in beside them, and return the rows that come out.

    Raises:
        WorkerError: the worker failed or refused.
        ValueError: what it gave are no rows.
    """
    tensors = [] if taken is None else [_tensor(taken)]
    request = worker_pb2.ProbeRequest(token_ids=token_ids, tensors=tensors, want_outputs=True, step_rows=step_rows)
    output = await _run_patiently(worker, request)
    if len(output.shape) != 2:
        raise ValueError("no rows")
    return GoldenRows(output.shape[0], output.shape[1], output.data)


async def _run_patiently(worker: RowRunner, request: worker_pb2.ProbeRequest) -> frame_pb2.Tensor:
    for _ in range(BUSY_TRIES):
        try:
            return await worker.run_rows(request, STEP_TIMEOUT_S)
        except WorkerError as error:
            if error.code != SEQUENCE_TAKEN:
                raise
        await asyncio.sleep(BUSY_WAIT_S)
    return await worker.run_rows(request, STEP_TIMEOUT_S)


def _tensor(rows: GoldenRows) -> frame_pb2.Tensor:
    return frame_pb2.Tensor(
        name="hidden",
        dtype=frame_pb2.DTYPE_F32,
        shape=[rows.rows, rows.width],
        codec=frame_pb2.CODEC_RAW,
        data=rows.data,
    )


def _words(at_once: RowErrors, one_by_one: RowErrors, tolerance: Tolerance) -> str:
    limits = f"cosine {tolerance.cosine:g} at least, error {tolerance.error:g} at most"
    figures = f"at once {at_once.describe(tolerance)}; one by one {one_by_one.describe(tolerance)}"
    return f"{figures}; near is {limits}"
