"""Two workers of one machine with one compute turn: they alternate, and neither can hold the other up for good.

FakeEngine's steps are timed sleeps, so workers without a turn overlap fully however busy the machine is: the control.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import pytest

from meshnet.failure_codes import FailureCode
from meshnet.ids import SessionKey
from meshnet.v1 import worker_pb2
from tests.integration.native.native_routes import WORKER, until_free
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.fake_shards import N_LAYERS, load_request, terms
from tests.simulators.plain_gateway import Answer, PlainGateway
from tests.simulators.worker_process import WorkerProgram, running_program

pytestmark = pytest.mark.native

STEP_US = 2_000  # a row and layer
TOKENS = 40
PROMPT_ROWS = len(terms().prompt)
# What the engine of one worker computes for one answer.
ANSWER_S = (PROMPT_ROWS + TOKENS - 1) * N_LAYERS * STEP_US / 1e6


@dataclass(frozen=True, slots=True)
class LoneWorker:
    """A worker with the whole model, and the route to it."""

    program: WorkerProgram
    route: BridgedRoute

    async def answer(self, number: int, *, step_deadline_ms: int = 60_000) -> Answer:
        """One generation of TOKENS tokens."""
        given = terms(key=SessionKey(bytes([number]) * 16, 1), max_tokens=TOKENS, step_deadline_ms=step_deadline_ms)
        assert all(reply.accepted for reply in await self.route.open(given))
        gateway = PlainGateway(self.route, given)
        answer = await gateway.generate()
        await gateway.close()
        return answer


@contextlib.asynccontextmanager
async def workers(
    folder: Path, count: int, turn_path: str, *, step_us: int = STEP_US
) -> AsyncIterator[list[LoneWorker]]:
    """Workers that share a turn path; empty: none."""
    async with contextlib.AsyncExitStack() as stack:
        started = []
        for number in range(count):
            program = await stack.enter_async_context(running_program(WORKER, folder / f"w{number}.sock"))
            route = await stack.enter_async_context(BridgedRoute([program.socket_path]))
            request = load_request(0, N_LAYERS, step_us=step_us)
            request.turn_path = turn_path
            await route.load([request])
            started.append(LoneWorker(program, route))
        yield started


@contextlib.asynccontextmanager
async def a_slow_holder(folder: Path, turn_path: str) -> AsyncIterator[LoneWorker]:
    """A worker inside a step that is longer than the test; killed at the end."""
    async with (
        running_program(WORKER, folder / "slow.sock") as program,
        BridgedRoute([program.socket_path]) as route,
    ):
        request = load_request(0, N_LAYERS, step_us=1_000_000)
        request.turn_path = turn_path
        await route.load([request])
        holder = LoneWorker(program, route)
        answering = asyncio.create_task(holder.answer(1))
        try:
            await until_computing(route)
            yield holder
        finally:
            program.process.kill()
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)


async def until_computing(route: BridgedRoute) -> None:
    """Come back once the worker is inside an engine step."""
    async with asyncio.timeout(10):
        async for status in route.workers[0].stub.WatchStatus(worker_pb2.WatchStatusRequest(interval_ms=100)):
            if status.computing:
                return


async def elapsed_s(folder: Path, turn_path: str) -> float:
    """How long two workers take for one answer each, at once."""
    async with workers(folder, 2, turn_path) as (first, second):
        started_s = time.monotonic()
        answers = await asyncio.gather(first.answer(1), second.answer(2))
        spent_s = time.monotonic() - started_s
    assert [len(answer.tokens) for answer in answers] == [TOKENS, TOKENS]
    assert answers[0].token_ids == answers[1].token_ids
    return spent_s


async def test_two_workers_compute_in_turn_and_without_one_at_once(tmp_path: Path) -> None:
    with_turn_s = await elapsed_s(tmp_path, str(tmp_path / "compute.turn"))
    without_s = await elapsed_s(tmp_path, "")
    print(json.dumps({"answer_s": ANSWER_S, "with_turn_s": round(with_turn_s, 3), "without_s": round(without_s, 3)}))
    assert with_turn_s >= 2 * ANSWER_S  # never two steps at once
    assert without_s < 0.85 * with_turn_s  # control: without the turn they overlap, on a busy machine too


async def test_a_killed_worker_leaves_the_turn_to_the_other(tmp_path: Path) -> None:
    async with workers(tmp_path, 2, str(tmp_path / "compute.turn")) as (killed, living):
        dying = asyncio.create_task(killed.answer(1))
        serving = asyncio.create_task(living.answer(2))
        await living.route.workers[0].status()
        killed.program.process.kill()
        await killed.program.process.wait()
        assert len((await serving).tokens) == TOKENS
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
        await until_free(*living.route.workers)
        assert not (await living.route.workers[0].status()).sessions


async def test_a_stopped_worker_does_not_hold_up_the_other(tmp_path: Path) -> None:
    """One step of the stopped worker is longer than the test: it is stopped in the middle of it."""
    turn_path = str(tmp_path / "compute.turn")
    async with workers(tmp_path, 1, turn_path) as (living,), a_slow_holder(tmp_path, turn_path) as holder:
        os.kill(holder.program.process.pid, signal.SIGSTOP)
        started_s = time.monotonic()
        assert len((await living.answer(2)).tokens) == TOKENS
        spent_s = time.monotonic() - started_s
        print(json.dumps({"answer_s": ANSWER_S, "beside_a_stopped_holder_s": round(spent_s, 3)}))
        assert spent_s < ANSWER_S + 5


async def test_a_turn_that_does_not_come_fails_the_session_with_a_typed_reason(tmp_path: Path) -> None:
    turn_path = str(tmp_path / "compute.turn")
    async with workers(tmp_path, 1, turn_path) as (waiting,):
        async with a_slow_holder(tmp_path, turn_path):
            given = terms(key=SessionKey(b"w" * 16, 1), step_deadline_ms=500)
            assert all(reply.accepted for reply in await waiting.route.open(given))
            gateway = PlainGateway(waiting.route, given)
            await gateway.send_prompt()
            failure = await gateway.until_failure()
            assert (failure.code, failure.stage) == (FailureCode.STEP_TIMEOUT, 0)
        answer = await waiting.answer(3)  # the session's cells are free, the turn is too
    assert len(answer.tokens) == TOKENS


@pytest.mark.parametrize("path", ["compute.turn", "/nowhere/compute.turn"])
async def test_a_turn_path_that_cannot_be_private_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async with workers(tmp_path, 1, path):
            pass
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert (refused.value.details() or "").startswith("invalid_argument: ")
