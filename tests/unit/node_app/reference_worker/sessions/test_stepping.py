"""The engine's task: a step that fails takes its session alone, and deadlines do not wait for a step."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from meshnet.constants import GATEWAY_STAGE
from meshnet.failure_codes import FailureCode
from meshnet.frame import EdgeMessage, Frame, Phase, StageFailure, TokenEvent, write_frame
from node_app.reference_worker.sessions.machine import EngineStep, StageMachine
from node_app.reference_worker.sessions.shard import Outcome
from node_app.reference_worker.sessions.state import ReferenceState
from node_app.reference_worker.sessions.stepping import run_steps
from tests.simulators.engine_step import run_step
from tests.simulators.fake_shards import KEY, N_LAYERS, load_request, terms
from tests.simulators.faults import Faults
from tests.simulators.route_terms import spec_for
from tests.simulators.shard_load import plan_load

DEADLINE_S = 10.0
PROMPT = terms().prompt
CHUNK = Frame(
    KEY.session, KEY.epoch, GATEWAY_STAGE, 0, 0, Phase.PREFILL, 0, len(PROMPT), prompt_end=True, token_ids=PROMPT
)


@contextlib.asynccontextmanager
async def stepping(
    run: Callable[[EngineStep], Outcome], step_deadline_ms: int = 5_000
) -> AsyncIterator[ReferenceState]:
    """A whole fake model with one session whose prompt waits, and the task that runs its steps with `run`."""
    load = plan_load(load_request(0, N_LAYERS))
    state = ReferenceState()
    state.machine = StageMachine(load)
    state.machine.open(spec_for(terms(step_deadline_ms=step_deadline_ms), 0, [load.contract]), time.monotonic())
    state.machine.receive_frame(write_frame(CHUNK), time.monotonic())
    with ThreadPoolExecutor(max_workers=1) as thread:
        task = asyncio.create_task(run_steps(state, run, thread))
        try:
            yield state
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def first(state: ReferenceState, kind: type[StageFailure | TokenEvent]) -> StageFailure | TokenEvent:
    """The first message to the Gateway of this kind."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            state.outgoing.clear()
            assert state.machine is not None
            for message in state.machine.take_outgoing():
                if isinstance(message, EdgeMessage) and isinstance(message.body, kind):
                    return message.body
            await state.outgoing.wait()


async def test_tokens_come_as_steps_end() -> None:
    async with stepping(lambda step: run_step(step.session, step.waiting.frame, Faults())) as state:
        token = await first(state, TokenEvent)
    assert isinstance(token, TokenEvent)
    assert (token.index, token.position) == (0, len(PROMPT))
    assert state.compute_us > 0


async def test_an_error_that_nobody_foresaw_ends_the_session_and_its_words_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(step: EngineStep) -> Outcome:
        raise RuntimeError(f"the prompt {step.waiting.frame.token_ids}")

    with caplog.at_level(logging.ERROR):
        async with stepping(fail) as state:
            failure = await first(state, StageFailure)
            assert state.machine is not None
            assert not state.machine.sessions
    assert isinstance(failure, StageFailure)
    assert failure.code == FailureCode.ENGINE_FAILED
    assert "RuntimeError" in caplog.text
    assert str(PROMPT) not in caplog.text


async def test_a_session_fails_in_time_while_its_step_still_runs() -> None:
    may_end = threading.Event()

    def stall(_step: EngineStep) -> Outcome:
        may_end.wait(DEADLINE_S)
        return Outcome()

    try:
        async with stepping(stall, step_deadline_ms=50) as state:
            failure = await first(state, StageFailure)
            assert state.is_computing
            may_end.set()
    finally:
        may_end.set()
    assert isinstance(failure, StageFailure)
    assert failure.code == FailureCode.STEP_TIMEOUT
