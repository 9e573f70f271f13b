"""The simulated stage's deadlines and farewells: the same figures as native/tests/session/stage_machine_test.cpp."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from meshnet.constants import GATEWAY_STAGE
from meshnet.failure_codes import FailureCode
from meshnet.frame import Ack, EdgeMessage, Frame, Phase, SessionGone, StageFailure, write_edge_message, write_frame
from meshnet.ids import Address, Edge
from tests.simulators.engine_step import run_step
from tests.simulators.fake_shards import KEY, N_LAYERS, load_request, terms
from tests.simulators.faults import Faults
from tests.simulators.route_terms import spec_for
from tests.simulators.shard_load import plan_load
from tests.simulators.stage_machine import SimulatedMachine

PROMPT = terms().prompt
CHUNK = Frame(KEY.session, KEY.epoch, GATEWAY_STAGE, 0, 0, Phase.PREFILL, 0, 12, prompt_end=True, token_ids=PROMPT)
STEP_S = 1.0


def opened(stage: int, n_stages: int, *, grace_ms: int = 500, idle_ms: int = 60_000) -> SimulatedMachine:
    """One stage of a route, with its session open since 0."""
    per_stage = N_LAYERS // n_stages
    bounds = [*range(0, per_stage * n_stages, per_stage), N_LAYERS]
    loads = [plan_load(load_request(begin, end)) for begin, end in pairwise(bounds)]
    given = terms(step_deadline_ms=int(STEP_S * 1000), gateway_grace_ms=grace_ms, idle_ms=idle_ms)
    machine = SimulatedMachine(loads[stage], Faults())
    machine.open(spec_for(given, stage, [load.contract for load in loads]), 0.0)
    return machine


def run(machine: SimulatedMachine, now_s: float) -> None:
    for step in machine.take_steps(now_s):
        machine.commit(step, run_step(step.session, step.waiting.frame, Faults()), now_s)


def acknowledge(machine: SimulatedMachine, seq: int, now_s: float) -> None:
    message = EdgeMessage.on(Address(KEY, Edge(0, 1)), Ack(seq))
    machine.receive_edge(write_edge_message(message), now_s)


def taken(machine: SimulatedMachine, kind: type[StageFailure | SessionGone]) -> list[EdgeMessage]:
    """What was sent of one kind since the last call; the rest is dropped."""
    sent = machine.take_outgoing()
    return [message for message in sent if isinstance(message, EdgeMessage) and isinstance(message.body, kind)]


def head_without_a_token(n_stages: int, grace_ms: int) -> SimulatedMachine:
    """A head whose prompt the next stage has acknowledged at 0."""
    machine = opened(0, n_stages, grace_ms=grace_ms)
    machine.receive_frame(write_frame(CHUNK), 0.0)
    run(machine, 0.0)
    acknowledge(machine, 0, 0.0)
    return machine


@pytest.mark.parametrize(
    ("n_stages", "grace_ms", "due_s"),
    [(2, 500, STEP_S), (2, 900, 1.8), (4, 500, 2 * 2 * STEP_S + STEP_S)],
)
def test_a_token_that_does_not_come_back_is_the_tails_fault_once_all_stages_had_their_time(
    n_stages: int, grace_ms: int, due_s: float
) -> None:
    machine = head_without_a_token(n_stages, grace_ms)
    assert machine.tick(due_s - 0.001) == pytest.approx(due_s)
    assert not taken(machine, StageFailure)
    machine.tick(due_s)
    (failure,) = taken(machine, StageFailure)
    assert isinstance(failure.body, StageFailure)
    assert (failure.body.code, failure.body.stage) == (FailureCode.STEP_TIMEOUT, n_stages - 1)


def test_a_token_that_comes_in_time_ends_the_wait_and_its_row_begins_another() -> None:
    machine = head_without_a_token(4, 500)
    token = replace(CHUNK, from_stage=3, phase=Phase.DECODE, position=12, rows=1, prompt_end=False, token_ids=(65,))
    machine.receive_frame(write_frame(token), 0.9)
    machine.tick(20.0)
    assert not taken(machine, StageFailure)
    run(machine, 20.0)
    assert machine.tick(20.0) == pytest.approx(21.0)
    acknowledge(machine, 1, 20.1)
    assert machine.tick(23.0) == pytest.approx(23.1)
    machine.tick(23.1)
    assert len(taken(machine, StageFailure)) == 1


@pytest.mark.parametrize(("stage", "told"), [(0, Edge(2, 0)), (1, Edge(0, 1)), (2, Edge(1, 2))])
def test_a_stage_that_fails_tells_whoever_sends_to_it_and_nobody_else(stage: int, told: Edge) -> None:
    machine = opened(stage, 3, idle_ms=5_000)
    machine.tick(5.0)
    (gone,) = taken(machine, SessionGone)
    assert (gone.edge, gone.body) == (told, SessionGone(FailureCode.IDLE))


def test_a_farewell_is_reported_only_after_its_cause_had_time_to_be_heard() -> None:
    machine = opened(0, 2)
    machine.receive_edge(write_edge_message(EdgeMessage.on(Address(KEY, Edge(0, 1)), SessionGone("idle"))), 1.0)
    assert machine.tick(1.0) == pytest.approx(1.25)
    assert not taken(machine, StageFailure)
    machine.tick(1.25)
    (failure,) = taken(machine, StageFailure)
    assert isinstance(failure.body, StageFailure)
    assert (failure.body.code, failure.body.stage) == (FailureCode.STAGE_LOST, 1)
