"""When the workers of a route computed, by their own word: intervals of one monotonic clock, and how they intersect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

import grpc.aio

from meshnet.v1 import measure_pb2
from tests.simulators.bridged_route import CALL_TIMEOUT_S, BridgedWorker

MICROSECONDS_PER_MS = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    """One session's rows in an engine step. Times in microseconds of the machine's monotonic clock."""

    position: int
    rows: int
    begin_us: int
    end_us: int

    def intersection_us(self, other: Interval) -> int:
        return max(0, min(self.end_us, other.end_us) - max(self.begin_us, other.begin_us))


@dataclass(frozen=True, slots=True)
class Overlap:
    """How the steps of two neighbouring stages lie to each other.

    Attributes:
        chunks: steps of the later stage,
        intersecting: those of them during which the earlier stage computed too.
        both_ms: time in which both computed.
        span_ms: from the first step's begin to the last one's end.
    """

    chunks: int
    intersecting: int
    both_ms: float
    span_ms: float

    @property
    def holds(self) -> bool:
        """The bar: intervals intersect for at least half of the chunks; no chunks are a failure."""
        return self.chunks > 0 and 2 * self.intersecting >= self.chunks


def overlap_of(earlier: Sequence[Interval], later: Sequence[Interval]) -> Overlap:
    """Compare the steps of two neighbouring stages."""
    shared_us = [sum(step.intersection_us(other) for other in earlier) for step in later]
    begin_us = min((step.begin_us for step in (*earlier, *later)), default=0)
    end_us = max((step.end_us for step in (*earlier, *later)), default=0)
    return Overlap(
        chunks=len(later),
        intersecting=sum(one > 0 for one in shared_us),
        both_ms=round(sum(shared_us) / MICROSECONDS_PER_MS, 1),
        span_ms=round((end_us - begin_us) / MICROSECONDS_PER_MS, 1),
    )


class StepTimes:
    """Reads one worker's steps as they are captured."""

    def __init__(
        self, call: grpc.aio.UnaryStreamCall[measure_pb2.CaptureStepsRequest, measure_pb2.CapturedStep]
    ) -> None:
        self._call = call

    async def of_prompt(self, prompt_rows: int) -> list[Interval]:
        """The steps up to the one that ends the prompt.

        Raises:
            TimeoutError: they did not come in time.
            ConnectionError: the capture ended first.
        """
        steps = await self.until_position(prompt_rows)
        return [Interval(step.position, step.rows, step.begin_us, step.end_us) for step in steps]

    async def until_position(self, position: int) -> list[measure_pb2.CapturedStep]:
        """All steps up to the one whose rows end there.

        Raises:
            TimeoutError: they did not come in time.
            ConnectionError: the capture ended first.
        """
        steps: list[measure_pb2.CapturedStep] = []
        while not steps or steps[-1].position + steps[-1].rows < position:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                step = await self._call.read()
            if not isinstance(step, measure_pb2.CapturedStep):
                raise ConnectionError("the capture ended before its steps did")
            steps.append(step)
        return steps


@contextlib.asynccontextmanager
async def captured_steps(workers: Sequence[BridgedWorker]) -> AsyncIterator[list[StepTimes]]:
    """Capture the steps of these workers, which are meshnet-worker-measure, for the body's time.

    Raises:
        TimeoutError: a capture did not begin.
    """
    calls = [worker.measure.CaptureSteps(measure_pb2.CaptureStepsRequest()) for worker in workers]
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            for call in calls:
                await call.initial_metadata()  # from here on it runs
        yield [StepTimes(call) for call in calls]
    finally:
        for call in calls:
            call.cancel()


def neighbours(stages: Sequence[list[Interval]]) -> Iterator[Overlap]:
    """The overlap at every seam."""
    for index in range(len(stages) - 1):
        yield overlap_of(stages[index], stages[index + 1])
