"""How the route machine plans, opens every stage, and plans around those that refuse."""

from __future__ import annotations

from typing import Any

import pytest

from meshnet.frame import Close
from meshnet.v1 import session_pb2
from tests.unit.tracker_site.routes.route_kit import (
    DEADLINES,
    FAILURE,
    NO_ROUTE,
    Driven,
    a_contract,
    a_request,
    failure_of,
    from_stage,
    sent_chunks,
    sent_messages,
)
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.machine import MAX_ATTEMPTS
from tracker_site.routes.session.transitions import RouteState


def test_a_new_route_asks_for_a_plan() -> None:
    assert Driven().take() == [io.PlanRoute(frozenset())]


def test_nothing_is_sent_before_everything_is_open() -> None:
    driven = Driven()
    driven.plan()
    assert driven.give(io.StageOpened(1, 1, a_contract(1)), io.RelayBound(1)) == []
    assert driven.state() is RouteState.OPENING
    actions = driven.give(io.StageOpened(1, 0, a_contract(0)))
    assert driven.state() is RouteState.PREFILL
    sent = [chunk.frame for chunk in sent_chunks(actions)]
    assert [frame.seq for frame in sent] == list(range(len(sent)))
    assert sent[0].rows == driven.chunking.rows


@pytest.mark.parametrize(
    ("stage", "change", "named"),
    [
        (0, {"contract_digest": b"x" * 32}, "node0"),
        (0, {"recipe": "torch f32"}, "node0"),
        (0, {"n_layers": 5}, "node0"),
        (1, {"layers": {"layer_begin": 0, "layer_end": 4}}, "node1"),
        (1, {"vocab_size": 100}, "node1"),
        (1, {"context_length": 100}, "node1"),
        (1, {"inputs": [{"name": "other", "dtype": 1, "elements_per_row": 16}]}, "node1"),
        (1, {"inputs": []}, "node1"),
        (1, {"needs_token_ids": True}, "node1"),
        (1, {"outputs": [{"name": "hidden", "dtype": 1, "elements_per_row": 16}]}, "node1"),
        (0, {"inputs": [{"name": "hidden", "dtype": 1, "elements_per_row": 16}]}, "node0"),
    ],
)
def test_a_stage_that_does_not_fit_is_planned_around(stage: int, change: dict[str, object], named: str) -> None:
    driven = Driven()
    driven.plan()
    contracts = [a_contract(0), a_contract(1)]
    for name in change:
        contracts[stage].ClearField(name)
    contracts[stage].MergeFrom(type(contracts[stage])(**change))  # type: ignore[arg-type]  # a test's builder
    actions = driven.give(*(io.StageOpened(1, number, contract) for number, contract in enumerate(contracts)))
    assert driven.state() is RouteState.PLANNING
    assert actions[-1] == io.PlanRoute(frozenset({named}))
    driven.give(io.PlanFailed(NO_ROUTE))
    assert failure_of(driven) == ("contract_mismatch", stage)


@pytest.mark.parametrize("change", [{"repack": True}, {"threads": 2}], ids=str)
def test_exact_routes_need_one_exact_class(change: dict[str, Any]) -> None:
    for is_exact, state in ((False, RouteState.OPENING), (True, RouteState.PLANNING)):
        driven = Driven(a_request(is_exact=is_exact))
        driven.plan()
        other = a_contract(1)
        other.exact_class.MergeFrom(session_pb2.ExactClass(**change))
        driven.give(io.StageOpened(1, 0, a_contract(0)), io.StageOpened(1, 1, other))
        assert driven.state() is state


def test_a_refusal_is_planned_around_with_a_new_epoch() -> None:
    driven = Driven()
    driven.plan()
    driven.give(io.RelayBound(1), io.StageOpened(1, 0, a_contract(0)))
    actions = driven.give(io.StageRefused(1, 1, "kv_exhausted", "no cells"))
    closing = [message for message in sent_messages(actions) if isinstance(message.body, Close)]
    assert [message.to_stage for message in closing] == [0, 1]
    assert [type(action) for action in actions[-2:]] == [io.CloseAttempt, io.PlanRoute]
    assert actions[-1] == io.PlanRoute(frozenset({"node1"}))
    (opened,) = driven.plan()
    assert isinstance(opened, io.OpenAttempt)
    assert opened.terms.key.epoch == 2


def test_a_node_with_another_worker_than_planned_is_planned_with_again_by_new_offers() -> None:
    driven = Driven()
    driven.plan()
    actions = driven.give(io.RelayBound(1), io.StageRefused(1, 1, "worker_changed", "another one"))
    assert actions[-1] == io.PlanRoute(frozenset(), by_new_offers=True)
    driven.plan()
    driven.give(io.RelayBound(2), io.StageOpened(2, 0, a_contract(0)), io.StageOpened(2, 1, a_contract(1)))
    assert driven.state() is RouteState.PREFILL


def test_new_offers_are_read_once_in_a_route() -> None:
    driven = Driven()
    driven.plan()
    driven.give(io.StageRefused(1, 1, "worker_changed", "another one"))
    driven.plan()
    actions = driven.give(io.StageRefused(2, 0, "worker_changed", "here too"))
    assert actions[-1] == io.PlanRoute(frozenset({"node0"}))
    driven.plan()
    assert driven.give(io.StageRefused(3, 1, "kv_exhausted", "full"))[-1] == io.PlanRoute(frozenset({"node0", "node1"}))


def test_only_a_refusal_says_that_an_offer_was_out_of_date() -> None:
    driven = Driven()
    driven.plan()
    assert driven.give(io.StageGone(1, 1, "worker_changed", "gone"))[-1] == io.PlanRoute(frozenset({"node1"}))


def test_a_node_whose_worker_changed_and_that_offers_nothing_yet_leaves_no_route() -> None:
    driven = Driven()
    driven.plan()
    driven.give(io.StageRefused(1, 1, "worker_changed", "another one"), io.PlanFailed(NO_ROUTE))
    assert driven.machine.failure is NO_ROUTE


def test_late_news_of_an_older_attempt_changes_nothing() -> None:
    driven = Driven()
    driven.plan()
    driven.give(io.StageRefused(1, 1, "kv_exhausted", "no cells"))
    driven.plan()
    late: list[io.RouteInput] = [
        io.RelayBound(1),
        io.StageOpened(1, 0, a_contract(0)),
        io.StageOpened(1, 1, a_contract(1)),
        io.StageRefused(1, 0, "not_ready", "late"),
        io.StageGone(1, 0, "stage_lost", "late"),
        io.RelayFailed(1, "relay_unavailable", "late"),
        io.NodeQuiet(1, 0),
        from_stage(1, FAILURE, epoch=1),
    ]
    assert driven.give(*late) == []
    assert driven.state() is RouteState.OPENING


def test_attempts_are_bounded() -> None:
    driven = Driven()
    for epoch in range(1, MAX_ATTEMPTS + 1):
        driven.plan()
        driven.give(io.StageRefused(epoch, 0, "too_many_sessions", "full"))
    assert failure_of(driven) == ("too_many_sessions", 0)
    assert len(driven.closes) == MAX_ATTEMPTS


def test_when_no_other_node_is_left_the_refusal_is_what_is_told() -> None:
    driven = Driven()
    driven.plan()
    driven.give(io.StageRefused(1, 1, "kv_exhausted", "no cells"), io.PlanFailed(NO_ROUTE))
    assert failure_of(driven) == ("kv_exhausted", 1)
    assert len(driven.closes) == 1


def test_no_plan_at_all_is_told_as_it_is() -> None:
    driven = Driven()
    driven.give(io.PlanFailed(NO_ROUTE))
    assert driven.machine.failure is NO_ROUTE
    assert driven.closes == []


def test_a_stage_that_does_not_answer_is_planned_around() -> None:
    driven = Driven()
    driven.plan()
    driven.give(io.RelayBound(1), io.StageOpened(1, 0, a_contract(0)))
    driven.wait(DEADLINES.open_s - 0.01)
    assert driven.state() is RouteState.OPENING
    driven.wait(0.02)
    assert driven.state() is RouteState.PLANNING
    assert driven.done[-1] == io.PlanRoute(frozenset({"node1"}))


def test_a_relay_that_does_not_answer_is_nobody_s_fault() -> None:
    driven = Driven()
    driven.plan()
    driven.give(*(io.StageOpened(1, stage, a_contract(stage)) for stage in range(2)))
    driven.wait(DEADLINES.open_s)
    assert failure_of(driven) == ("stage_lost", None)


def test_a_planner_that_does_not_answer_is_not_waited_for() -> None:
    driven = Driven()
    driven.wait(DEADLINES.open_s)
    assert failure_of(driven) == ("planning_timeout", None)
