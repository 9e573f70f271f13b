"""What the agent should be doing, decided from what it knows.

Invariants: pure; the answer depends on the state alone, so the agent can be asked again at any time. The agent starts
what is wanted and not running, and cancels what runs and is not wanted: there is no other control flow.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from meshnet.shard_facts import NodeState
from node_app.agent.events import SelfTest
from node_app.agent.state import AgentState, WorkerPhase

if TYPE_CHECKING:
    from collections.abc import Iterator


class PlanStep(Enum):
    """One thing the agent can be doing."""

    START_WORKER = auto()
    LOAD_SHARD = auto()
    TEST_SHARD = auto()  # compare what it computes with the model's golden probe
    MEASURE_SHARD = auto()
    SERVE = auto()  # watch the worker, and carry between its bridge and the relay
    ENROL = auto()
    HOLD_CONTROL = auto()
    HOLD_DATA = auto()
    REPORT = auto()


_WORKER_STEPS: dict[WorkerPhase, frozenset[PlanStep]] = {
    WorkerPhase.DOWN: frozenset({PlanStep.START_WORKER}),
    WorkerPhase.STARTED: frozenset({PlanStep.LOAD_SHARD}),
    WorkerPhase.LOADED: frozenset({PlanStep.MEASURE_SHARD}),
    WorkerPhase.SERVING: frozenset({PlanStep.SERVE}),
    WorkerPhase.REFUSED: frozenset(),
}


def plan_steps(state: AgentState) -> frozenset[PlanStep]:
    """Return everything that should be going on now; nothing once the agent ends."""
    if state.is_quitting or state.fatal:
        return frozenset()
    return _worker_steps(state) | frozenset(_site_steps(state))


def _worker_steps(state: AgentState) -> frozenset[PlanStep]:
    phase, self_test = state.worker.phase, state.worker.self_test
    if state.has_site and phase is WorkerPhase.LOADED and self_test in {SelfTest.PENDING, SelfTest.FAILED}:
        return frozenset({PlanStep.TEST_SHARD})
    # A site that cannot be reached does not keep this machine's own programs waiting.
    if state.has_site and phase is WorkerPhase.SERVING and self_test is SelfTest.PUT_OFF:
        return _WORKER_STEPS[phase] | {PlanStep.TEST_SHARD}
    return _WORKER_STEPS[phase]


def _site_steps(state: AgentState) -> Iterator[PlanStep]:
    if not state.has_site:
        return
    if not state.node_id:
        # At once, not after loading: a refused token should not cost the load of a large model first.
        yield PlanStep.ENROL
        return
    yield PlanStep.HOLD_CONTROL
    if state.relay_url:
        yield PlanStep.HOLD_DATA
    if state.is_control_connected and state.reported_revision < state.revision:
        yield PlanStep.REPORT


def is_offered(state: AgentState) -> bool:
    """Whether the site may plan with the shard: it is ready, and proven as far as there is something to prove it by."""
    is_proven = not state.has_site or state.worker.self_test in {SelfTest.PASSED, SelfTest.ABSENT}
    return state.worker.phase is WorkerPhase.SERVING and is_proven


def condition(state: AgentState) -> NodeState:
    """Return the condition to report."""
    if is_offered(state):
        return NodeState.PAUSED if state.is_paused else NodeState.SERVING
    if state.worker.self_test is SelfTest.FAILED:
        return NodeState.SELF_TEST_FAILED
    if state.worker.failures or state.worker.phase is WorkerPhase.REFUSED:
        return NodeState.DEGRADED
    return NodeState.LOADING
