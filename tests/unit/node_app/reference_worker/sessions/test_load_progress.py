"""A load tells how far it is as it goes, and ends when nobody waits for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from meshnet.errors import WorkerError
from meshnet.v1 import worker_pb2
from node_app.reference_worker.sessions.load_news import LoadNews
from node_app.reference_worker.sessions.machine import StageMachine
from node_app.reference_worker.sessions.service import WorkerService
from node_app.reference_worker.sessions.state import ReferenceState
from tests.simulators.fake_program import FakeProgram
from tests.simulators.fake_shards import N_LAYERS, load_request
from tests.simulators.faults import Faults
from tests.simulators.shard_load import plan_load

FRACTIONS = (0.25, 0.5, 0.75)
DEADLINE_S = 10.0


class SlowProgram(FakeProgram):
    """Loads in a thread, step by step: each step waits until the one before was heard of."""

    def __init__(self, failure: WorkerError | None = None) -> None:
        super().__init__(Faults())
        self.step = asyncio.Semaphore(0)
        self.was_left = asyncio.Event()
        self._failure = failure

    async def load(self, request: worker_pb2.LoadRequest, progress: Callable[[float], None]) -> StageMachine:
        try:
            for fraction in FRACTIONS:
                await asyncio.to_thread(progress, fraction)
                await self.step.acquire()
        except asyncio.CancelledError:
            self.was_left.set()
            raise
        if self._failure is not None:
            raise self._failure
        return StageMachine(plan_load(request))


class AbortedError(Exception):
    """A call was ended with an error."""


class Context:
    """Of a call: keeps what it was ended with."""

    async def abort(self, _code: object, details: str) -> None:
        raise AbortedError(details)


async def load(program: SlowProgram) -> list[worker_pb2.LoadProgress]:
    """Every message of a load whose steps go on as they are heard of."""
    context: Any = Context()
    messages = []
    async with asyncio.timeout(DEADLINE_S):
        async for message in WorkerService(ReferenceState(), program).Load(load_request(0, N_LAYERS), context):
            messages.append(message)
            if message.fraction:
                program.step.release()
    return messages


async def test_every_step_of_a_load_is_told_before_it_is_ready() -> None:
    messages = await load(SlowProgram())
    assert [message.fraction for message in messages] == [0.0, *FRACTIONS, 1.0]
    states = [message.state for message in messages]
    assert states == [worker_pb2.LoadProgress.STATE_LOADING] * 4 + [worker_pb2.LoadProgress.STATE_READY]
    assert messages[-1].contract.n_layers == N_LAYERS


async def test_a_load_that_fails_after_progress_is_an_error() -> None:
    with pytest.raises(AbortedError, match="truncated"):
        await load(SlowProgram(WorkerError("truncated", "Unusable", "the file ended")))


async def test_a_load_that_nobody_waits_for_ends_at_its_next_step() -> None:
    news = LoadNews()
    news.tell(0.5)
    news.give_up()
    with pytest.raises(WorkerError) as ended:
        news.tell(0.75)
    assert ended.value.code == "cancelled"


async def test_a_caller_that_leaves_gives_the_load_up() -> None:
    program = SlowProgram()
    context: Any = Context()
    messages: Any = WorkerService(ReferenceState(), program).Load(load_request(0, N_LAYERS), context)
    async with asyncio.timeout(DEADLINE_S):
        assert [(await anext(messages)).fraction for _ in range(2)] == [0.0, 0.25]
        await messages.aclose()
        await program.was_left.wait()
