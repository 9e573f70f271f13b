"""Computes a golden probe by a walk through the model, one range of layers after the other.

A range lies between two neighbouring legal cuts. The worker loads each range once and computes its output rows from
those of the range before it, the first range from token ids alone.

Invariants: one range is in memory at a time. Rows are kept in f32 as the worker gave them, so that the output of a
shard of several ranges differs from them only by the shard's own rounding. The walk fails if rows are not finite, or
differ too much from the rows that the worker gives if it computes one row in each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from meshnet.artifact.model.caches import UBATCH_ROWS
from meshnet.errors import WorkerError
from meshnet.failure_codes import FailureCode
from meshnet.golden.comparing import SAME_BACKEND, RowErrors, compare_logits, compare_rows
from meshnet.golden.probe import GoldenProbe, GoldenRows, draw_token_ids
from node_app.agent.loading import load_request
from node_app.settings import LayerSpan
from node_app.worker.limits import DEFAULT_CONTEXT_LENGTH, WorkerLimits
from node_app.worker.self_test import RowRunner, run_golden

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meshnet.v1 import worker_pb2
    from node_app.artifacts.model_file import ModelFile
    from node_app.worker.client import LoadResult

LOAD_SILENCE_S: Final = 300.0
# Two, since the worker frees a probe's sequence only a moment after it has answered.
SEQUENCES: Final = 2


class RangeWorker(RowRunner, Protocol):
    """The calls of a worker that the walk needs."""

    async def load(self, request: worker_pb2.LoadRequest, silence_timeout_s: float) -> LoadResult:
        """Load a range of layers; raise WorkerError if the worker reports no progress for `silence_timeout_s`."""

    async def unload(self) -> None:
        """Free the loaded range of layers."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A model and the settings with which the walk computes it.

    Attributes:
        model: the model with all its layers.
        artifact_digest: SHA-256 over the digests of the model's files.
        cuts: the legal cuts after layer 0, ascending.
        threads: number of threads with which the worker computes.
        turn_path: path of the compute turn's lock file.
        tell: called with each range of layers before it is computed.
    """

    model: ModelFile
    artifact_digest: bytes
    cuts: Sequence[int]
    threads: int
    turn_path: str
    tell: Callable[[LayerSpan], None]

    def ranges(self) -> list[LayerSpan]:
        """Return the ranges of layers between neighbouring legal cuts, from layer 0 to the model's end."""
        return [LayerSpan(*pair) for pair in pairwise([0, *self.cuts, self.model.n_layers])]


@dataclass(frozen=True, slots=True)
class MadeGolden:
    """A model's golden probe, and how well the worker could reproduce it.

    Attributes:
        golden: the probe; the worker computed all its rows in one step.
        one_by_one: the distances between the probe's rows and the same rows computed one in each step.
    """

    golden: GoldenProbe
    one_by_one: RowErrors


async def make_golden(worker: RangeWorker, walk: Walk) -> MadeGolden:
    """Compute a model's golden probe.

    Raises:
        WorkerError: the worker failed; if the code is `not_finite`, `wrong_shape` or `not_reproducible`, the rows that
            it computed cannot serve as a reference.
    """
    hidden: dict[int, GoldenRows] = {}
    token_ids: tuple[int, ...] = ()
    taken: GoldenRows | None = None
    errors = RowErrors()
    for layers in walk.ranges():
        walk.tell(layers)
        request = load_request(walk.model, layers, walk.artifact_digest, _limits(walk), walk.turn_path)
        contract = (await worker.load(request, LOAD_SILENCE_S)).contract
        token_ids = token_ids or draw_token_ids(walk.artifact_digest, contract.vocab_size)
        given = await _run(worker, token_ids, taken, step_rows=0)
        again = await _run(worker, token_ids, taken, step_rows=1)
        found = _compare(again, given, taken, is_tail=layers.layer_end == walk.model.n_layers)
        if not found.is_within(SAME_BACKEND):
            message = f"layers {layers}: rows computed one by one differ too much: {found.describe(SAME_BACKEND)}"
            raise WorkerError("not_reproducible", "No reference", message)
        errors += found
        await worker.unload()
        taken = hidden[layers.layer_end] = given
    logits = hidden.pop(walk.model.n_layers)
    exact = contract.exact_class
    golden = GoldenProbe(walk.artifact_digest, walk.model.n_layers, exact.backend, exact.pin, token_ids, hidden, logits)
    return MadeGolden(golden, errors)


async def _run(worker: RangeWorker, token_ids: tuple[int, ...], taken: GoldenRows | None, step_rows: int) -> GoldenRows:
    try:
        rows = await run_golden(worker, token_ids, taken, step_rows)
    except ValueError as error:
        raise WorkerError(FailureCode.WRONG_SHAPE, "No reference", f"the worker gave {error}") from error
    if rows.rows != len(token_ids) or not rows.is_finite():
        raise WorkerError(FailureCode.NOT_FINITE, "No reference", "the worker gave rows that are missing or not finite")
    return rows


def _compare(found: GoldenRows, expected: GoldenRows, taken: GoldenRows | None, *, is_tail: bool) -> RowErrors:
    return compare_logits(found, expected) if is_tail else compare_rows(found, expected, taken)


def _limits(walk: Walk) -> WorkerLimits:
    # The limits that nodes choose by default, since the context length decides rope factors and the step size rounding.
    context_length = min(walk.model.context_length, DEFAULT_CONTEXT_LENGTH)
    return WorkerLimits(
        threads=walk.threads,
        context_length=context_length,
        kv_cells=context_length * SEQUENCES,
        max_sessions=SEQUENCES,
        ubatch_rows=UBATCH_ROWS,
    )
