"""What each event changes, and what late ones do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from node_app.agent.events import (
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
    WorkerDown,
    WorkerGivenUp,
    WorkerStarted,
)
from node_app.agent.plan import PlanStep, plan_steps
from node_app.agent.state import AgentState, WorkerPhase, WorkerState, apply

FRESH = AgentState()
SERVING = AgentState(
    worker=WorkerState(phase=WorkerPhase.SERVING, pid=7, failures=2, self_test=SelfTest.PASSED),
    node_id="node",
    is_control_connected=True,
    is_data_connected=True,
    relay_url="ws://relay",
    revision=9,
    reported_revision=9,
    stored_revision=9,
)


def after(state: AgentState, *events: Event) -> AgentState:
    for event in events:
        state = apply(event, state)
    return state


def test_a_worker_comes_up_phase_by_phase() -> None:
    state = after(FRESH, WorkerStarted(pid=5))
    assert (state.worker.phase, state.worker.pid) == (WorkerPhase.STARTED, 5)
    state = after(state, ShardLoaded(), ShardMeasured())
    assert state.worker.phase is WorkerPhase.SERVING


def test_a_worker_that_ended_is_down_with_its_reason_until_the_next_serves() -> None:
    down = after(SERVING, WorkerDown("it crashed", failures=3, start_delay_s=0.5))
    assert down.worker == WorkerState(WorkerPhase.DOWN, failures=3, start_delay_s=0.5, reason="it crashed", pid=0)
    started = after(down, WorkerStarted(pid=8))
    assert (started.worker.reason, started.worker.start_delay_s) == ("it crashed", 0.0)
    assert after(started, ShardLoaded(), ShardMeasured()).worker.reason == ""


@pytest.mark.parametrize("phase", [phase for phase in WorkerPhase if phase is not WorkerPhase.STARTED])
def test_late_news_of_a_load_change_no_phase(phase: WorkerPhase) -> None:
    state = replace(FRESH, worker=WorkerState(phase=phase))
    assert after(state, ShardLoaded()).worker.phase is phase


@pytest.mark.parametrize("phase", [phase for phase in WorkerPhase if phase is not WorkerPhase.LOADED])
def test_late_news_of_a_measurement_change_no_phase(phase: WorkerPhase) -> None:
    state = replace(FRESH, worker=WorkerState(phase=phase))
    assert after(state, ShardMeasured()).worker.phase is phase


LOADED = replace(FRESH, worker=WorkerState(phase=WorkerPhase.LOADED))


@pytest.mark.parametrize("verdict", [SelfTest.PASSED, SelfTest.ABSENT, SelfTest.FAILED])
def test_a_verdict_is_kept_with_its_words(verdict: SelfTest) -> None:
    tested = after(LOADED, SelfTestPutOff("no site", 1.0), SelfTestPutOff("no site", 2.0))
    assert (tested.worker.self_test_delays, tested.worker.self_test_delay_s) == (2, 2.0)
    assert tested.worker.self_test is SelfTest.PUT_OFF
    tested = after(tested, SelfTested(verdict, "figures"))
    assert (tested.worker.self_test, tested.worker.self_test_words) == (verdict, "figures")
    assert (tested.worker.self_test_delays, tested.worker.self_test_delay_s) == (0, 0.0)
    assert tested.worker.phase is WorkerPhase.LOADED


@pytest.mark.parametrize("verdict", list(SelfTest))
def test_the_next_worker_is_proven_anew_and_a_failure_is_not_forgotten(verdict: SelfTest) -> None:
    worker = WorkerState(phase=WorkerPhase.LOADED, self_test=verdict, self_test_words="figures")
    down = after(replace(FRESH, worker=worker), WorkerDown("it ended", failures=1, start_delay_s=1.0)).worker
    expected = SelfTest.FAILED if verdict is SelfTest.FAILED else SelfTest.PENDING
    assert (down.self_test, bool(down.self_test_words)) == (expected, verdict is SelfTest.FAILED)


def test_a_failed_shard_serves_nobody_while_the_next_one_s_test_is_put_off() -> None:
    failed = after(LOADED, SelfTested(SelfTest.FAILED, "figures"), WorkerDown("wrong rows", 1, 120.0))
    loaded = after(failed, WorkerStarted(pid=8), ShardLoaded())
    assert loaded.worker.self_test_delay_s == 0.0
    for delays in (1, 2, 3):
        loaded = after(loaded, SelfTestPutOff("busy", float(delays)))
        assert (loaded.worker.self_test, loaded.worker.self_test_words) == (SelfTest.FAILED, "figures")
        assert (loaded.worker.self_test_delays, loaded.worker.self_test_delay_s) == (delays, float(delays))
        assert plan_steps(loaded) & {PlanStep.TEST_SHARD, PlanStep.MEASURE_SHARD, PlanStep.SERVE} == {
            PlanStep.TEST_SHARD
        }
    down = after(loaded, WorkerDown("it crashed", 2, 1.0)).worker
    assert (down.self_test, down.self_test_delays, down.self_test_delay_s) == (SelfTest.FAILED, 0, 0.0)
    passed = after(loaded, SelfTested(SelfTest.PASSED, "figures"))
    assert plan_steps(passed) & {PlanStep.TEST_SHARD, PlanStep.MEASURE_SHARD} == {PlanStep.MEASURE_SHARD}


@pytest.mark.parametrize("phase", [WorkerPhase.DOWN, WorkerPhase.STARTED, WorkerPhase.REFUSED])
@pytest.mark.parametrize("event", [SelfTested(SelfTest.PASSED, "x"), SelfTestPutOff("x", 1.0)])
def test_late_news_of_a_self_test_change_nothing(phase: WorkerPhase, event: Event) -> None:
    state = replace(FRESH, worker=WorkerState(phase=phase))
    assert after(state, event) == state


def test_giving_up_is_final() -> None:
    state = after(FRESH, WorkerGivenUp("no such architecture"))
    assert (state.worker.phase, state.worker.reason) == (WorkerPhase.REFUSED, "no such architecture")


def test_enrolment_counts_its_failures_until_it_works() -> None:
    failed = after(FRESH, EnrolFailed(1.0), EnrolFailed(2.0))
    assert (failed.enrol_failures, failed.enrol_delay_s) == (2, 2.0)
    enrolled = after(failed, Enrolled("node"))
    assert (enrolled.node_id, enrolled.enrol_failures, enrolled.enrol_delay_s) == ("node", 0, 0.0)


def test_a_forgotten_identity_begins_anew() -> None:
    state = after(SERVING, IdentityForgotten())
    assert (state.node_id, state.is_control_connected, state.relay_url) == ("", False, "")
    assert state.worker == SERVING.worker


def test_a_new_control_connection_has_heard_nothing() -> None:
    state = after(SERVING, ControlDown(), ControlUp("ws://other"))
    assert (state.relay_url, state.is_control_connected) == ("ws://other", True)
    assert (state.reported_revision, state.stored_revision) == (0, 0)


def test_a_lost_control_connection_keeps_the_relay() -> None:
    state = after(SERVING, ControlDown())
    assert (state.is_control_connected, state.relay_url, state.is_data_connected) == (False, "ws://relay", True)


def test_what_the_site_says_of_the_node_is_kept_until_it_says_otherwise_or_is_another() -> None:
    told = after(SERVING, NoticeChanged("artifact_unknown", "not ours"))
    assert (told.notice_code, told.notice) == ("artifact_unknown", "not ours")
    assert after(told, NoticeChanged("", "")).notice == ""
    assert after(told, ControlDown()).notice == "not ours"
    assert after(told, ControlDown(), ControlUp("ws://relay")).notice == ""


def test_reports_never_go_back() -> None:
    assert after(replace(SERVING, reported_revision=5), Reported(4)).reported_revision == 5


def test_stored_reports_never_go_back() -> None:
    state = after(replace(SERVING, stored_revision=5), ReportStored(7), ReportStored(6))
    assert state.stored_revision == 7


def test_earnings_are_kept_until_they_are_told_anew_or_the_site_forgot_the_node() -> None:
    assert SERVING.earned_micros is None
    told = after(SERVING, ReportStored(1, 1_500_000), ReportStored(2))
    assert told.earned_micros == 1_500_000
    assert after(told, ReportStored(3, 0)).earned_micros == 0
    assert after(told, ControlDown(), ControlUp("ws://relay")).earned_micros == 1_500_000
    assert after(told, IdentityForgotten()).earned_micros is None


def test_the_first_fatal_failure_explains_the_others() -> None:
    assert after(FRESH, FatalFailure("first"), FatalFailure("second")).fatal == "first"


@pytest.mark.parametrize(
    ("event", "grows"),
    [
        (WorkerDown("x", 3, 1.0), True),
        (WorkerGivenUp("x"), True),
        (DataChanged(is_connected=False), True),
        (DataChanged(is_connected=True), False),
        (SessionsChanged(), True),
        (PauseAsked(is_paused=True), True),
        (PauseAsked(is_paused=False), False),
        (ControlUp("ws://relay"), True),
        (Enrolled("other"), True),
        (ControlDown(), False),
        (EnrolFailed(1.0), False),
        (Reported(10), False),
        (ReportStored(10), False),
        (ReportStored(10, 5), False),
        (NoticeChanged("artifact_unknown", "not ours"), False),
        (QuitAsked(), False),
        (ShardLoaded(), False),
        (SelfTested(SelfTest.FAILED, "figures"), True),
    ],
)
def test_the_revision_grows_when_the_site_should_hear(event: Event, *, grows: bool) -> None:
    assert (apply(event, SERVING).revision > SERVING.revision) is grows
