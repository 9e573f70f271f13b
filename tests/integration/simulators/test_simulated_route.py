"""Simulated workers generate what the unsplit model says, however they are cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from meshnet.sampling import SamplingTerms
from tests.integration.simulators.routes_of_workers import running_route
from tests.simulators.bridged_route import LostTokens
from tests.simulators.fake_shards import N_LAYERS, WIDTH, open_all, terms
from tests.simulators.faults import Faults
from tests.simulators.worker import SimulatedWorker
from tests.vectors.engine_cases import generate

POLL_S = 0.01


async def until(condition: Callable[[], bool]) -> None:
    """Poll; the caller has a deadline."""
    while not condition():  # noqa: ASYNC110 - the machine has no event for it
        await asyncio.sleep(POLL_S)


def in_flight_frames(worker: SimulatedWorker) -> int:
    sessions = worker.state.machine.sessions.values()
    return sum(edge.in_flight_frames for session in sessions for edge in session.sending.values())


def unsplit(sampling: SamplingTerms, max_tokens: int = 40) -> list[int]:
    return generate(N_LAYERS, WIDTH, sampling, max_tokens)


async def test_the_control_differs(tmp_path: Path) -> None:
    """Rows that are off by one give another answer: the comparison above can fail."""
    async with running_route(tmp_path, [3], faults={0: Faults(garble_rows=True)}) as running:
        answer = await (await open_all(running.route, terms())).generate()
    assert answer.token_ids != unsplit(SamplingTerms())


async def test_a_gateway_that_comes_back_gets_what_it_missed(tmp_path: Path) -> None:
    lost = LostTokens(5)
    given = terms(token_window=5, gateway_grace_ms=5_000)
    async with running_route(tmp_path, [3], keep=lost) as running:
        gateway = await open_all(running.route, given)
        await gateway.send_prompt()
        async with asyncio.timeout(10):
            await lost.wait()
            # An acknowledgement that is lost with the bridge would stall the head: nothing but tokens is sent again.
            await until(lambda: not in_flight_frames(running.workers[0]))
        await running.route.reconnect(1)
        answer = await gateway.generate()
    assert answer.token_ids == unsplit(SamplingTerms())
