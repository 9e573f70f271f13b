"""Whom and what a route's failure is laid to, whoever tells of it first."""

from __future__ import annotations

import pytest

from meshnet.failure_codes import STAGE_LOSSES, FailureCode
from meshnet.frame import StageFailure
from tests.unit.tracker_site.routes.route_kit import DEADLINES, driven_to, failure_of, from_stage
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.transitions import RouteState

GATEWAY_LOST = StageFailure(FailureCode.GATEWAY_LOST, "no acknowledgement of tokens came in time", 1)


@pytest.mark.parametrize("code", sorted({*STAGE_LOSSES, FailureCode.STAGE_LOST}))
def test_a_stage_that_is_gone_has_one_code_whoever_told_first(code: str) -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(io.StageGone(1, 1, code, "it is gone"))
    assert failure_of(driven) == (FailureCode.STAGE_LOST, 1)


@pytest.mark.parametrize("code", [FailureCode.IDLE, FailureCode.WINDOW_EXCEEDED, "ticket_spent"])
def test_any_other_end_keeps_its_code(code: str) -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(io.StageGone(1, 1, code, "it has ended"))
    assert failure_of(driven) == (code, 1)


@pytest.mark.parametrize("told_by_node", [True, False], ids=["control", "relay"])
def test_a_tail_that_misses_what_the_reader_took_long_ago_was_cut_off_by_the_relay(told_by_node: bool) -> None:
    driven = driven_to(RouteState.DECODE)
    driven.machine.acknowledge(0, driven.now_s)
    driven.wait(DEADLINES.grace_s)
    told = io.StageGone(1, 1, GATEWAY_LOST.code, GATEWAY_LOST.message) if told_by_node else from_stage(1, GATEWAY_LOST)
    driven.give(told)
    assert failure_of(driven) == ("relay_unavailable", None)


@pytest.mark.parametrize("taken_before_s", [None, 0.0], ids=["never took it", "took it just now"])
def test_a_tail_whose_reader_is_slow_is_right_about_it(taken_before_s: float | None) -> None:
    driven = driven_to(RouteState.DECODE)
    driven.wait(DEADLINES.grace_s)
    if taken_before_s is not None:
        driven.machine.acknowledge(0, driven.now_s)
        driven.wait(taken_before_s)
    driven.give(from_stage(1, GATEWAY_LOST))
    assert failure_of(driven) == (FailureCode.GATEWAY_LOST, 1)


def test_before_the_first_token_nobody_waits_for_a_reader() -> None:
    driven = driven_to(RouteState.PREFILL)
    driven.give(from_stage(1, GATEWAY_LOST))
    assert failure_of(driven) == (FailureCode.GATEWAY_LOST, 1)
