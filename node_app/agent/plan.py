"""Decides from the agent's state which steps should run.

Invariants: pure; the result depends on the state alone. The agent starts the wanted steps that do not run and cancels
the running ones that are not wanted; there is no other control flow.
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
    """A task of the agent. `plan_steps` says which tasks should be running."""

    START_WORKER = auto()
    LOAD_SHARD = auto()
    TEST_SHARD = auto()  # compare its output rows with the model's golden probe
    MEASURE_SHARD = auto()
    SERVE = auto()  # watch the worker, and carry packets between its bridge and the relay
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
    """Return the steps that should be running in this state; none if the agent is to end."""
    if state.is_quitting or state.fatal:
        return frozenset()
    return _worker_steps(state) | frozenset(_site_steps(state))


def _worker_steps(state: AgentState) -> frozenset[PlanStep]:
    phase, self_test = state.worker.phase, state.worker.self_test
    if state.has_site and phase is WorkerPhase.LOADED and self_test in {SelfTest.PENDING, SelfTest.FAILED}:
        return frozenset({PlanStep.TEST_SHARD})
    # If the site cannot be reached, the shard already serves this machine's own programs while the test is tried again.
    if state.has_site and phase is WorkerPhase.SERVING and self_test is SelfTest.PUT_OFF:
        return _WORKER_STEPS[phase] | {PlanStep.TEST_SHARD}
    return _WORKER_STEPS[phase]


def _site_steps(state: AgentState) -> Iterator[PlanStep]:
    if not state.has_site:
        return
    if not state.node_id:
        # The node enrols before the model is loaded, so that a refused token is known at once.
        yield PlanStep.ENROL
        return
    yield PlanStep.HOLD_CONTROL
    if state.relay_url:
        yield PlanStep.HOLD_DATA
    if state.is_control_connected and state.reported_revision < state.revision:
        yield PlanStep.REPORT


def is_offered(state: AgentState) -> bool:
    """Whether the node offers its shard.

    It does if a worker serves the shard and the shard passed its self test. If the node has no site, or the site has no
    golden probe of the model, no test is needed.
    """
    is_proven = not state.has_site or state.worker.self_test in {SelfTest.PASSED, SelfTest.ABSENT}
    return state.worker.phase is WorkerPhase.SERVING and is_proven


def condition(state: AgentState) -> NodeState:
    """Return the node's condition, as reports to the site and the tray show it."""
    if is_offered(state):
        return NodeState.PAUSED if state.is_paused else NodeState.SERVING
    if state.worker.self_test is SelfTest.FAILED:
        return NodeState.SELF_TEST_FAILED
    if state.worker.failures or state.worker.phase is WorkerPhase.REFUSED:
        return NodeState.DEGRADED
    return NodeState.LOADING
