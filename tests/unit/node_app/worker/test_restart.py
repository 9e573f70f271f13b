"""The restart policy as a table."""

from __future__ import annotations

import pytest

from node_app.worker.restart import FINAL_CODES, STABLE_AFTER_S, EndCause, GiveUp, Restart, WorkerEnd, plan_restart

SELF_TEST_DELAYS_S = (120.0, 480.0, 1920.0, 3600.0, 3600.0)
NO_JITTER = 1.0  # the whole delay


@pytest.mark.parametrize(
    ("cause", "served_s", "failures_before", "failures", "delay_s"),
    [
        (EndCause.EXITED, 1.0, 0, 1, 0.1),
        (EndCause.EXITED, 1.0, 1, 2, 0.3),
        (EndCause.STALLED, 1.0, 2, 3, 0.9),
        (EndCause.PROBE_FAILED, 1.0, 3, 4, 2.7),
        (EndCause.START_FAILED, 0.0, 4, 5, 8.1),
        (EndCause.BRIDGE_LOST, 1.0, 5, 6, 24.3),
        (EndCause.LOAD_FAILED, 0.0, 6, 7, 60.0),
        (EndCause.EXITED, 0.0, 1000, 1001, 60.0),
        (EndCause.EXITED, STABLE_AFTER_S, 9, 1, 0.1),
    ],
)
def test_restarts_come_ever_later_until_a_worker_was_stable(
    cause: EndCause, served_s: float, failures_before: int, failures: int, delay_s: float
) -> None:
    end = WorkerEnd(cause, "some_code", "why", served_s)
    outcome = plan_restart(end, failures_before, NO_JITTER, has_served=False)
    assert isinstance(outcome, Restart)
    assert outcome.failures == failures
    assert outcome.delay_s == pytest.approx(delay_s)


@pytest.mark.parametrize(("failures_before", "delay_s"), list(enumerate(SELF_TEST_DELAYS_S)))
@pytest.mark.parametrize("served_s", [0.0, STABLE_AFTER_S])
def test_wrong_rows_are_not_tried_again_for_minutes(failures_before: int, delay_s: float, served_s: float) -> None:
    end = WorkerEnd(EndCause.SELF_TEST_FAILED, "self_test_failed", "why", served_s)
    outcome = plan_restart(end, failures_before, NO_JITTER, has_served=True)
    assert outcome == Restart(delay_s, failures_before + 1)


@pytest.mark.parametrize("code", sorted(FINAL_CODES))
def test_what_the_same_file_will_give_again_is_final(code: str) -> None:
    assert plan_restart(WorkerEnd(EndCause.LOAD_FAILED, code, "why"), 0, NO_JITTER, has_served=False) == GiveUp("why")


@pytest.mark.parametrize("code", sorted(FINAL_CODES))
def test_nothing_is_final_once_the_shard_has_served(code: str) -> None:
    outcome = plan_restart(WorkerEnd(EndCause.LOAD_FAILED, code, "why"), 0, NO_JITTER, has_served=True)
    assert isinstance(outcome, Restart)


@pytest.mark.parametrize("cause", [cause for cause in EndCause if cause is not EndCause.LOAD_FAILED])
def test_only_a_refused_load_is_final(cause: EndCause) -> None:
    assert isinstance(plan_restart(WorkerEnd(cause, "not_gguf", "why"), 0, NO_JITTER, has_served=False), Restart)
