"""What follows from each state, cell by cell."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from meshnet.shard_facts import NodeState
from node_app.agent.events import SelfTest
from node_app.agent.plan import PlanStep, condition, is_offered, plan_steps
from node_app.agent.state import AgentState, WorkerPhase, WorkerState

WORKER_STEPS = {
    WorkerPhase.DOWN: {PlanStep.START_WORKER},
    WorkerPhase.STARTED: {PlanStep.LOAD_SHARD},
    WorkerPhase.LOADED: {PlanStep.MEASURE_SHARD},
    WorkerPhase.SERVING: {PlanStep.SERVE},
    WorkerPhase.REFUSED: set(),
}
# (enrolled, relay known, control connected, everything reported) -> steps towards the site
SITE_STEPS = {
    (False, False, False, False): {PlanStep.ENROL},
    (True, False, False, False): {PlanStep.HOLD_CONTROL},
    (True, True, False, False): {PlanStep.HOLD_CONTROL, PlanStep.HOLD_DATA},
    (True, True, True, False): {PlanStep.HOLD_CONTROL, PlanStep.HOLD_DATA, PlanStep.REPORT},
    (True, True, True, True): {PlanStep.HOLD_CONTROL, PlanStep.HOLD_DATA},
    (True, False, True, False): {PlanStep.HOLD_CONTROL, PlanStep.REPORT},
}


def worker_of(phase: WorkerPhase, self_test: SelfTest = SelfTest.PASSED, failures: int = 0) -> WorkerState:
    return WorkerState(phase=phase, self_test=self_test, failures=failures)


def state_of(phase: WorkerPhase, site: tuple[bool, bool, bool, bool]) -> AgentState:
    is_enrolled, has_relay, is_connected, is_reported = site
    return AgentState(
        worker=worker_of(phase),
        node_id="node" if is_enrolled else "",
        relay_url="ws://relay" if has_relay else "",
        is_control_connected=is_connected,
        revision=3,
        reported_revision=3 if is_reported else 2,
    )


@pytest.mark.parametrize(("phase", "site"), list(product(WorkerPhase, SITE_STEPS)))
def test_every_state_has_its_steps(phase: WorkerPhase, site: tuple[bool, bool, bool, bool]) -> None:
    state = state_of(phase, site)
    assert plan_steps(state) == WORKER_STEPS[phase] | SITE_STEPS[site]
    assert plan_steps(replace(state, is_paused=True)) == plan_steps(state)
    assert plan_steps(replace(state, is_quitting=True)) == frozenset()
    assert plan_steps(replace(state, fatal="why")) == frozenset()


@pytest.mark.parametrize("phase", list(WorkerPhase))
def test_without_a_site_only_the_worker_has_steps(phase: WorkerPhase) -> None:
    state = replace(state_of(phase, (False, False, False, False)), has_site=False)
    assert plan_steps(state) == WORKER_STEPS[phase]


@pytest.mark.parametrize(("phase", "self_test"), list(product(WorkerPhase, SelfTest)))
def test_a_shard_is_proven_before_it_is_measured(phase: WorkerPhase, self_test: SelfTest) -> None:
    state = AgentState(worker=worker_of(phase, self_test), node_id="node")
    expected = set(WORKER_STEPS[phase])
    if phase is WorkerPhase.LOADED and self_test in {SelfTest.PENDING, SelfTest.FAILED}:
        expected = {PlanStep.TEST_SHARD}
    if phase is WorkerPhase.SERVING and self_test is SelfTest.PUT_OFF:
        expected = {PlanStep.SERVE, PlanStep.TEST_SHARD}
    assert plan_steps(state) - {PlanStep.HOLD_CONTROL} == expected
    assert plan_steps(replace(state, has_site=False)) == WORKER_STEPS[phase]


@pytest.mark.parametrize(("phase", "self_test"), list(product(WorkerPhase, SelfTest)))
def test_only_a_proven_shard_is_offered_to_a_site(phase: WorkerPhase, self_test: SelfTest) -> None:
    state = AgentState(worker=worker_of(phase, self_test))
    is_serving = phase is WorkerPhase.SERVING
    assert is_offered(state) is (is_serving and self_test in {SelfTest.PASSED, SelfTest.ABSENT})
    assert is_offered(replace(state, has_site=False)) is is_serving


@pytest.mark.parametrize("phase", list(WorkerPhase))
def test_a_failed_self_test_is_said_until_a_later_one_passes(phase: WorkerPhase) -> None:
    state = AgentState(worker=worker_of(phase, SelfTest.FAILED, failures=1))
    assert condition(state) is NodeState.SELF_TEST_FAILED


def test_a_node_whose_self_test_is_put_off_is_still_loading() -> None:
    state = AgentState(worker=worker_of(WorkerPhase.SERVING, SelfTest.PUT_OFF))
    assert condition(state) is NodeState.LOADING


@pytest.mark.parametrize(
    ("phase", "failures", "is_paused", "expected"),
    [
        (WorkerPhase.DOWN, 0, False, NodeState.LOADING),
        (WorkerPhase.STARTED, 0, False, NodeState.LOADING),
        (WorkerPhase.LOADED, 0, True, NodeState.LOADING),
        (WorkerPhase.SERVING, 0, False, NodeState.SERVING),
        (WorkerPhase.SERVING, 3, False, NodeState.SERVING),
        (WorkerPhase.SERVING, 0, True, NodeState.PAUSED),
        (WorkerPhase.DOWN, 1, False, NodeState.DEGRADED),
        (WorkerPhase.LOADED, 1, True, NodeState.DEGRADED),
        (WorkerPhase.REFUSED, 0, False, NodeState.DEGRADED),
    ],
)
def test_condition(phase: WorkerPhase, failures: int, *, is_paused: bool, expected: NodeState) -> None:
    state = AgentState(worker=worker_of(phase, failures=failures), is_paused=is_paused)
    assert condition(state) is expected
