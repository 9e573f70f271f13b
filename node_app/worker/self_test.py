"""Tests a loaded shard: its output rows must be near those of the model's golden probe.

Invariants: the rows go through the worker as those of a route do. They go through twice, all in one step like a prompt
and row by row like tokens, because engines compute the two with different kernels; both results must be near enough. If
the worker is lost or busy, nothing is known of the shard, and an error is raised; any other outcome is a verdict. Rows
are compared in a thread: a large vocabulary's logits take so long that connections would miss their heartbeats.
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
# The engine frees a probe's sequence a moment after the answer, so the next probe may find it still taken.
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
    """The part of `WorkerClient` that the test uses."""

    async def run_rows(self, request: worker_pb2.ProbeRequest, timeout_s: float) -> frame_pb2.Tensor:
        """Run the request's rows through the engine and return the output rows, as raw f32."""


@dataclass(frozen=True, slots=True)
class ShardToProve:
    """The shard to test.

    Attributes:
        layers: the shard's layers; the model is the golden probe's.
        backend: the backend that computes the layers; named as in the shard's exact class.
    """

    layers: LayerSpan
    backend: str


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """The verdict. `text` tells people how near the rows are, or the failure."""

    is_passed: bool
    text: str


async def prove_shard(worker: RowRunner, shard: ShardToProve, golden: GoldenProbe) -> SelfTestResult:
    """Run the golden rows at the shard's beginning through it and compare the results with those at its end.

    Raises:
        ArtifactError: `no_golden_rows`: the probe has no rows at an end of the shard.
        WorkerError: the worker is lost or busy, so nothing is known of the shard.
    """
    tolerance = tolerance_for(golden.backend, shard.backend)
    golden.require_ends(shard.layers.layer_begin, shard.layers.layer_end)
    try:
        at_once = await compare_shard(worker, shard.layers, golden, step_rows=0)
        one_by_one = await compare_shard(worker, shard.layers, golden, step_rows=1)
    except WorkerError as error:
        if error.code in NOT_ASKED:
            raise
        return SelfTestResult(is_passed=False, text=f"the step failed: {error.message} [{error.code}]")
    except ValueError as error:
        return SelfTestResult(is_passed=False, text=f"it gave {error}")
    is_passed = at_once.is_within(tolerance) and one_by_one.is_within(tolerance)
    return SelfTestResult(is_passed, _text(at_once, one_by_one, tolerance))


async def compare_shard(worker: RowRunner, layers: LayerSpan, golden: GoldenProbe, step_rows: int) -> RowErrors:
    """Run the golden rows in steps of `step_rows` (0: all in one step) and return the errors of the output rows.

    Raises:
        WorkerError: the worker failed or refused.
        ValueError: the output rows have another shape than the golden ones.
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
    """Run token ids through the worker's shard and return the output rows.

    Args:
        worker: a worker that has loaded the shard.
        token_ids: one for each row.
        taken: the hidden rows that the shard takes beside the token ids; None if it begins at layer 0.
        step_rows: rows of one step; 0 for all in one step.

    Raises:
        WorkerError: the worker failed or refused.
        ValueError: the output is not a matrix of rows.
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


def _text(at_once: RowErrors, one_by_one: RowErrors, tolerance: Tolerance) -> str:
    limits = f"cosine {tolerance.cosine:g} at least, error {tolerance.error:g} at most"
    figures = f"at once {at_once.describe(tolerance)}; one by one {one_by_one.describe(tolerance)}"
    return f"{figures}; near is {limits}"
