"""The one task of a simulated worker that runs steps and applies deadlines.

Invariant: every wait ends with the machine's nearest deadline, with new work, or with the task.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

from meshnet.frame import Frame
from node_app.reference_worker.sessions.machine import EngineStep
from tests.simulators.engine_step import reaches, run_step
from tests.simulators.stage_machine import SimulatedMachine
from tests.simulators.worker_state import SimulatedState

CRASH_STATUS = 70
# How often deadlines are looked at while a step takes its time.
_TICK_S = 0.02


async def run_engine(state: SimulatedState) -> None:
    """Run steps until cancelled."""
    while True:
        state.work.clear()
        machine = state.machine
        steps = [] if machine is None else machine.take_steps(time.monotonic())
        for step in steps:
            await _run_step(state, machine, step)
        if not steps:
            deadline_s = None if machine is None else machine.tick(time.monotonic())
            state.outgoing.set()
            await _wait_for_work(state, deadline_s)


async def _run_step(state: SimulatedState, machine: SimulatedMachine | None, step: EngineStep) -> None:
    if machine is None or machine is not state.machine:
        return
    began_s = state.begin_step()
    frame = step.waiting.frame
    if reaches(state.faults.crash_at_position, frame):
        os._exit(CRASH_STATUS)
    await _take_time(state, machine, began_s + _step_seconds(state, machine, frame))
    machine.commit(step, run_step(step.session, frame, state.faults), time.monotonic())
    state.end_step()
    state.outgoing.set()
    await asyncio.sleep(0)


def _step_seconds(state: SimulatedState, machine: SimulatedMachine, frame: Frame) -> float:
    if reaches(state.faults.stall_at_position, frame):
        return float("inf")
    load = machine.load
    layers = load.shard.layer_end - load.shard.layer_begin
    step_us = load.step_fixed_us + load.step_us * layers * frame.rows
    return step_us / 1_000_000 + state.faults.step_delay_ms / 1000


async def _take_time(state: SimulatedState, machine: SimulatedMachine, ends_at_s: float) -> None:
    """Let the engine's computing time pass while deadlines go on."""
    while (left_s := ends_at_s - time.monotonic()) > 0:
        machine.tick(time.monotonic())
        state.outgoing.set()
        await asyncio.sleep(min(left_s, _TICK_S))


async def _wait_for_work(state: SimulatedState, deadline_s: float | None) -> None:
    timeout_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
    # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the event.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await state.work.wait()
