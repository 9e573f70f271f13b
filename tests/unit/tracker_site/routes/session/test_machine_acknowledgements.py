"""What the route machine sends while tokens come: acknowledgements, and signs of life."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshnet.constants import GATEWAY_STAGE, TOKEN_ACK_WINDOW
from meshnet.frame import Ack, EdgeMessage, Keepalive, StageResidence
from meshnet.generation.progress import StageHealthChanged
from meshnet.ids import Edge
from meshnet.openai.telemetry import StageState
from tests.unit.tracker_site.routes.route_kit import (
    DEADLINES,
    Driven,
    a_request,
    a_token,
    driven_to,
    failure_of,
    from_stage,
    sent_messages,
)
from tracker_site.routes.session.transitions import RouteState


def test_a_tail_that_runs_past_its_window_ends_the_route() -> None:
    driven = driven_to(RouteState.DECODE)
    for index in range(1, TOKEN_ACK_WINDOW):
        driven.token(index)
    assert driven.state() is RouteState.DECODE
    driven.token(TOKEN_ACK_WINDOW)
    assert failure_of(driven) == ("window_exceeded", 1)


def test_acknowledgements_are_cumulative_and_few() -> None:
    driven = driven_to(RouteState.DECODE)
    sent: list[EdgeMessage] = []
    for index in range(1, 33):
        sent += sent_messages(driven.token(index))
        driven.machine.acknowledge(index, driven.now_s)
        sent += sent_messages(driven.take())
    assert [message.body for message in sent] == [Ack(7), Ack(15), Ack(23), Ack(31)]
    assert {message.edge for message in sent} == {Edge(1, GATEWAY_STAGE)}


def test_a_token_is_acknowledged_soon_even_alone() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.machine.acknowledge(0, driven.now_s)
    assert driven.take() == []
    assert [message.body for message in sent_messages(driven.wait(DEADLINES.ack_delay_s))] == [Ack(0)]
    assert sent_messages(driven.wait(1.0)) == []


def test_acknowledging_again_or_less_sends_nothing() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.machine.acknowledge(0, driven.now_s)
    driven.wait(DEADLINES.ack_delay_s)
    driven.machine.acknowledge(0, driven.now_s)
    assert sent_messages(driven.wait(1.0)) == []


def test_what_has_not_come_cannot_be_acknowledged() -> None:
    driven = driven_to(RouteState.DECODE)
    with pytest.raises(ValueError, match="has not come"):
        driven.machine.acknowledge(1, driven.now_s)


@pytest.mark.parametrize("state", [state for state in RouteState if state is not RouteState.DECODE])
def test_elsewhere_an_acknowledgement_sends_nothing(state: RouteState) -> None:
    driven = driven_to(state)
    if state is not RouteState.PREFILL:
        driven.machine.acknowledge(0, driven.now_s)
    assert driven.take() == []


def test_the_tail_is_never_held_back_by_a_reader_that_keeps_up() -> None:
    driven = Driven(a_request(10, 200))
    driven.plan()
    driven.open()
    driven.feed()
    acknowledged = -1
    for index in range(199):
        assert index - acknowledged <= TOKEN_ACK_WINDOW
        driven.token(index)
        driven.machine.acknowledge(index, driven.now_s)
        for message in sent_messages(driven.take()):
            assert isinstance(message.body, Ack)
            acknowledged = message.body.seq


def test_a_silent_stage_is_late_and_a_heard_one_is_not() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.wait(DEADLINES.late_s)
    assert driven.machine.events() == [StageHealthChanged(0, StageState.LATE), StageHealthChanged(1, StageState.LATE)]
    driven.give(from_stage(1, replace(a_token(1), residence=(StageResidence(0, 1, 1, 1), StageResidence(1, 1, 1, 1)))))
    events = driven.machine.events()
    assert {one.stage for one in events if isinstance(one, StageHealthChanged) and one.state is StageState.OK} == {0, 1}


def test_quiet_stages_are_told_that_the_session_lives() -> None:
    driven = Driven(a_request(10, 200))
    driven.plan()
    driven.open()
    driven.feed()
    kept: list[EdgeMessage] = []
    for index in range(int(DEADLINES.idle_s)):
        driven.token(index)
        driven.machine.acknowledge(index, driven.now_s)
        kept += sent_messages(driven.wait(1.0))
    alive = [message for message in kept if isinstance(message.body, Keepalive)]
    assert {message.to_stage for message in alive} == {0, 1}
    assert len(alive) >= 2 * 2
