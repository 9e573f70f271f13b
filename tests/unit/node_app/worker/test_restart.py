"""The restart policy as a table."""

from __future__ import annotations

import pytest

from node_app.worker.restart import (
    DAMAGED,
    FINAL_CODES,
    STABLE_AFTER_S,
    EndCause,
    GiveUp,
    Restart,
    WorkerEnd,
    explain,
    plan_restart,
)

SELF_TEST_DELAYS_S = (120.0, 480.0, 1920.0, 3600.0, 3600.0)
NO_JITTER = 1.0  # the whole delay
WRONG_ROWS = [(EndCause.SELF_TEST_FAILED, "self_test_failed"), (EndCause.PROBE_FAILED, "not_finite")]
FINAL = [(cause, code) for cause, codes in FINAL_CODES.items() for code in sorted(codes)]


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
@pytest.mark.parametrize(("cause", "code"), WRONG_ROWS)
def test_wrong_rows_are_not_tried_again_for_minutes(
    failures_before: int, delay_s: float, served_s: float, cause: EndCause, code: str
) -> None:
    end = WorkerEnd(cause, code, "why", served_s)
    outcome = plan_restart(end, failures_before, NO_JITTER, has_served=True)
    assert outcome == Restart(delay_s, failures_before + 1)


@pytest.mark.parametrize("cause", [cause for cause in EndCause if cause is not EndCause.SELF_TEST_FAILED])
@pytest.mark.parametrize("code", ["not_finite", "worker_timeout"])
def test_only_a_probe_that_gives_no_numbers_makes_a_damaged_file_likely(cause: EndCause, code: str) -> None:
    end = WorkerEnd(cause, code, "why")
    outcome = plan_restart(end, 0, NO_JITTER, has_served=False)
    is_likely = (cause, code) in WRONG_ROWS
    assert isinstance(outcome, Restart)
    assert outcome.delay_s == (SELF_TEST_DELAYS_S[0] if is_likely else pytest.approx(0.1))
    assert explain(end) == (f"why; {DAMAGED}" if is_likely else "why")


@pytest.mark.parametrize(("cause", "code"), FINAL)
def test_what_trying_again_will_give_again_is_final(cause: EndCause, code: str) -> None:
    assert plan_restart(WorkerEnd(cause, code, "why"), 0, NO_JITTER, has_served=False) == GiveUp("why")


@pytest.mark.parametrize(("cause", "code"), FINAL)
def test_nothing_is_final_once_the_shard_has_served(cause: EndCause, code: str) -> None:
    outcome = plan_restart(WorkerEnd(cause, code, "why"), 0, NO_JITTER, has_served=True)
    assert isinstance(outcome, Restart)


@pytest.mark.parametrize("cause", EndCause)
@pytest.mark.parametrize("code", ["not_gguf", "worker_unusable", "worker_not_ready", "worker_missing"])
def test_a_code_is_final_for_its_own_cause_alone(cause: EndCause, code: str) -> None:
    outcome = plan_restart(WorkerEnd(cause, code, "why"), 0, NO_JITTER, has_served=False)
    assert isinstance(outcome, GiveUp) is ((cause, code) in FINAL)
