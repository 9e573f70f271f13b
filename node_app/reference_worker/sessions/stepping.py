"""The task that runs all steps of the worker and applies the deadlines of its sessions.

Invariants: steps run one at a time on the engine's own thread, and deadlines are applied meanwhile. Every wait ends at
the machine's nearest deadline, with new work, or when the task is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Final

from meshnet.errors import describe_unforeseen
from meshnet.failure_codes import FailureCode
from node_app.reference_worker.sessions.shard import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from node_app.reference_worker.sessions.machine import EngineStep, StageMachine
    from node_app.reference_worker.sessions.state import ReferenceState

logger = logging.getLogger(__name__)

# Interval at which deadlines are checked while a step runs.
_TICK_S: Final = 0.02


async def run_steps(state: ReferenceState, run: Callable[[EngineStep], Outcome], thread: Executor) -> None:
    """Run the loaded shard's steps one after another until cancelled. `thread` is an executor with a single thread."""
    while True:
        state.work.clear()
        machine = state.machine
        steps = [] if machine is None else machine.take_steps(time.monotonic())
        for step in steps:
            if not step.session.is_open:  # it ended while other steps of this round ran
                continue
            running = asyncio.get_running_loop().run_in_executor(thread, _guarded, run, step)
            await _see_through(state, machine, step, running)
        if not steps:
            deadline_s = None if machine is None else machine.tick(time.monotonic())
            state.outgoing.set()
            await _wait_for_work(state, deadline_s)


async def _see_through(
    state: ReferenceState, machine: StageMachine | None, step: EngineStep, running: asyncio.Future[Outcome]
) -> None:
    state.begin_step()
    while not running.done():
        await asyncio.wait({running}, timeout=_TICK_S)
        if machine is not None:
            machine.tick(time.monotonic())
        state.outgoing.set()
    state.end_step()
    # If another shard was loaded meanwhile, the step's session is gone with its machine.
    if machine is not None and machine is state.machine:
        machine.commit(step, running.result(), time.monotonic())
        state.outgoing.set()


def _guarded(run: Callable[[EngineStep], Outcome], step: EngineStep) -> Outcome:
    try:
        return run(step)
    except Exception as error:  # noqa: BLE001 - the root of a step: its session fails, and the others go on
        logger.error("a step failed: %s", describe_unforeseen(error))
        return Outcome(failure=FailureCode.ENGINE_FAILED)


async def _wait_for_work(state: ReferenceState, deadline_s: float | None) -> None:
    timeout_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
    # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the event.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await state.work.wait()
