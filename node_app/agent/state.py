"""The agent's state, and how each event changes it.

Invariants: pure; states are frozen. Only `apply` makes the next state. It accepts every event in every state; an event
about a worker that has ended meanwhile changes nothing. `revision` grows if and only if the site needs a new report.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

from node_app.agent.events import (
    AgentEvent,
    ControlDown,
    ControlUp,
    DataChanged,
    EnrolFailed,
    Enrolled,
    Event,
    FatalFailure,
    IdentityForgotten,
    NoticeChanged,
    PauseAsked,
    QuitAsked,
    Reported,
    ReportStored,
    SelfTest,
    SelfTested,
    SelfTestPutOff,
    SessionsChanged,
    ShardLoaded,
    ShardMeasured,
    SiteEvent,
    WorkerDown,
    WorkerEvent,
    WorkerGivenUp,
    WorkerStarted,
)


class WorkerPhase(Enum):
    """How far the worker has come towards serving."""

    DOWN = auto()
    STARTED = auto()
    LOADED = auto()
    SERVING = auto()  # loaded, probed and measured
    REFUSED = auto()  # trying again cannot help


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The part of the agent's state that concerns the worker.

    Attributes:
        phase: how far the worker has come.
        failures: how many workers have ended in a row; a worker that served for a minute begins the count anew.
        start_delay_s: seconds to wait before the next worker is started.
        reason: why the worker is down, for people; empty while all is well.
        pid: process id of the running worker; 0 if none runs.
        has_served: whether any worker of this agent has served the shard.
        self_test: result of the loaded shard's self test. After a failure it stays FAILED until a shard that is loaded
            later passes, or the site has no golden probe any more.
        self_test_words: the self test's figures, or why it was put off, for people.
        self_test_delays: how often in a row the self test was put off.
        self_test_delay_s: seconds to wait before the self test is tried again.
    """

    phase: WorkerPhase = WorkerPhase.DOWN
    failures: int = 0
    start_delay_s: float = 0.0
    reason: str = ""
    pid: int = 0
    has_served: bool = False
    self_test: SelfTest = SelfTest.PENDING
    self_test_words: str = ""
    self_test_delays: int = 0
    self_test_delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentState:
    """The agent's whole state; the plan depends on nothing else.

    Attributes:
        has_site: whether the node serves a site; if not, it serves its own machine only.
        node_id: the id that the site gave the node; empty until it is enrolled.
        enrol_failures: how many tries in a row to enrol failed.
        enrol_delay_s: seconds to wait before the next try to enrol.
        relay_url: the relay's address; empty until the site has named it.
        notice_code: stable code of the reason for which the site does not use this node; empty if it named none.
        notice: that reason, for people.
        earned_micros: micro-credits that the owner has earned and not yet made spendable; None until the site tells.
        fatal: why the agent must end, for people; empty while it may go on.
        revision: counts the changes of which the site must be told.
        reported_revision: the newest revision in a report that was sent over the present control connection.
        stored_revision: the newest revision in a report that the site has stored.
    """

    worker: WorkerState = field(default_factory=WorkerState)
    has_site: bool = True
    node_id: str = ""
    enrol_failures: int = 0
    enrol_delay_s: float = 0.0
    is_control_connected: bool = False
    is_data_connected: bool = False
    relay_url: str = ""
    notice_code: str = ""
    notice: str = ""
    earned_micros: int | None = None
    is_paused: bool = False
    is_quitting: bool = False
    fatal: str = ""
    revision: int = 1
    reported_revision: int = 0
    stored_revision: int = 0


# The site is not told of these: it caused them itself, or cannot use them.
_PRIVATE_EVENTS = (Reported, ReportStored, NoticeChanged, EnrolFailed, ControlDown, QuitAsked)


def apply(event: Event, state: AgentState) -> AgentState:
    """Return the state after `event`."""
    if isinstance(event, SessionsChanged):
        return replace(state, revision=state.revision + 1)
    changed = _changed(event, state)
    if changed == state:
        return state
    if isinstance(event, _PRIVATE_EVENTS):
        return changed
    return replace(changed, revision=state.revision + 1)


def _changed(event: WorkerEvent | SiteEvent | AgentEvent, state: AgentState) -> AgentState:
    match event:
        case Reported() | ReportStored() | NoticeChanged():
            return _heard(event, state)
        case PauseAsked(is_paused):
            return replace(state, is_paused=is_paused)
        case QuitAsked():
            return replace(state, is_quitting=True)
        case FatalFailure(reason):
            return replace(state, fatal=state.fatal or reason)  # the first failure explains the others
        case Enrolled() | EnrolFailed() | IdentityForgotten() | ControlUp() | ControlDown() | DataChanged():
            return _site_changed(event, state)
        case _:
            return replace(state, worker=_worker_changed(event, state.worker))


def _worker_changed(event: WorkerEvent, worker: WorkerState) -> WorkerState:
    match event:
        case WorkerStarted(pid):
            return replace(worker, phase=WorkerPhase.STARTED, pid=pid, start_delay_s=0.0)
        case ShardLoaded():
            return _advanced(worker, WorkerPhase.STARTED, WorkerPhase.LOADED)
        case SelfTested() | SelfTestPutOff():
            return _self_tested(event, worker)
        case ShardMeasured():
            measured = _advanced(worker, WorkerPhase.LOADED, WorkerPhase.SERVING)
            has_served = worker.has_served or measured.phase is WorkerPhase.SERVING
            return replace(measured, reason="", has_served=has_served)
        case WorkerDown(reason, failures, delay_s):
            down = replace(worker, phase=WorkerPhase.DOWN, pid=0, reason=reason)
            return _untested(replace(down, failures=failures, start_delay_s=delay_s))
        case WorkerGivenUp(reason):
            return replace(worker, phase=WorkerPhase.REFUSED, pid=0, reason=reason)


def _self_tested(event: SelfTested | SelfTestPutOff, worker: WorkerState) -> WorkerState:
    """Return the worker's state after a self test or its postponement; unchanged if the tested worker has ended."""
    if worker.phase not in {WorkerPhase.LOADED, WorkerPhase.SERVING}:
        return worker
    if isinstance(event, SelfTested):
        known = replace(worker, self_test=event.verdict, self_test_words=event.words)
        return replace(known, self_test_delays=0, self_test_delay_s=0.0)
    delayed = replace(worker, self_test_delays=worker.self_test_delays + 1, self_test_delay_s=event.delay_s)
    # After a failure the shard serves no one until it has passed.
    if worker.self_test is SelfTest.FAILED:
        return delayed
    return replace(delayed, self_test=SelfTest.PUT_OFF, self_test_words=event.words)


def _untested(worker: WorkerState) -> WorkerState:
    """Return an ended worker's state with its self test pending again; a failed self test stays failed."""
    undelayed = replace(worker, self_test_delays=0, self_test_delay_s=0.0)
    if worker.self_test is SelfTest.FAILED:
        return undelayed
    return replace(undelayed, self_test=SelfTest.PENDING, self_test_words="")


def _advanced(worker: WorkerState, from_phase: WorkerPhase, to_phase: WorkerPhase) -> WorkerState:
    """Return the worker's state in `to_phase`; unchanged if it is not in `from_phase`, as the event is then late."""
    return replace(worker, phase=to_phase) if worker.phase is from_phase else worker


def _heard(event: Reported | ReportStored | NoticeChanged, state: AgentState) -> AgentState:
    if isinstance(event, NoticeChanged):
        return replace(state, notice_code=event.code, notice=event.message)
    if isinstance(event, Reported):
        return replace(state, reported_revision=max(state.reported_revision, event.revision))
    earned_micros = state.earned_micros if event.earned_micros is None else event.earned_micros
    return replace(state, stored_revision=max(state.stored_revision, event.revision), earned_micros=earned_micros)


def _site_changed(event: SiteEvent, state: AgentState) -> AgentState:
    match event:
        case Enrolled(node_id):
            return replace(state, node_id=node_id, enrol_failures=0, enrol_delay_s=0.0)
        case EnrolFailed(delay_s):
            return replace(state, enrol_failures=state.enrol_failures + 1, enrol_delay_s=delay_s)
        case IdentityForgotten():
            return replace(state, node_id="", is_control_connected=False, relay_url="", earned_micros=None)
        case ControlUp(relay_url):
            # Nothing has been reported over the new connection yet.
            heard = replace(state, reported_revision=0, stored_revision=0, notice_code="", notice="")
            return replace(heard, is_control_connected=True, relay_url=relay_url)
        case ControlDown():
            return replace(state, is_control_connected=False)
        case DataChanged(is_connected):
            return replace(state, is_data_connected=is_connected)
