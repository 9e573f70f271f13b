"""The route machine while tokens come: to whom they are told, and what ends the route."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import (
    Ack,
    Close,
    EdgeMessage,
    FinishReason,
    PrefillProgress,
    StageFailure,
    StageResidence,
    TokenEvent,
    TokenLogprob,
)
from meshnet.generation.progress import StageHealthChanged, TokenReceived
from meshnet.openai.events import FinishReason as ReaderFinish
from meshnet.openai.telemetry import StageState
from tests.unit.tracker_site.routes.route_kit import (
    END_TOKEN,
    FAILURE,
    SESSION,
    Driven,
    a_request,
    a_token,
    driven_to,
    failure_of,
    from_stage,
    sent_messages,
)
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.transitions import RouteState


def test_tokens_reach_the_reader_in_order_and_the_last_one_ends_the_route() -> None:
    driven = driven_to(RouteState.DECODE)
    residence = (StageResidence(0, 1, 2, 3), StageResidence(1, 4, 5, 6))
    event = replace(a_token(1), residence=residence, logprob=-0.5, top_logprobs=(TokenLogprob(66, -1.0),))
    driven.give(from_stage(1, event))
    (token,) = driven.machine.events()
    assert isinstance(token, TokenReceived)
    assert (token.index, token.token_id, token.logprob, token.top_logprobs) == (1, 65, -0.5, ((66, -1.0),))
    assert [(stage, one.queue_us, one.compute_us, one.codec_us) for stage, one in token.residence] == [
        (0, 1, 2, 3),
        (1, 4, 5, 6),
    ]
    actions = driven.token(2, token_id=END_TOKEN, finish=FinishReason.STOP)
    (last,) = driven.machine.events()
    assert isinstance(last, TokenReceived)
    assert last.finish is ReaderFinish.STOP
    assert driven.state() is RouteState.FINISHED
    assert [message.body for message in sent_messages(actions)] == [Close("finished"), Close("finished")]
    assert isinstance(actions[-1], io.CloseAttempt)


def test_the_limit_ends_the_route() -> None:
    driven = Driven(a_request(10, 2))
    driven.plan()
    driven.open()
    driven.feed()
    driven.token(0)
    driven.token(1, finish=FinishReason.LENGTH)
    assert driven.state() is RouteState.FINISHED


def test_a_repeated_token_is_not_told_twice() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.token(0)
    assert driven.machine.events() == []
    assert driven.state() is RouteState.DECODE


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (a_token(2), "sequence_gap"),
        (a_token(1, token_id=260), "bad_token_id"),
        (replace(a_token(1), position=300), "wrong_position"),
        (a_token(1, token_id=END_TOKEN), "malformed"),  # an end token without a finish
        (a_token(1, finish=FinishReason.STOP), "malformed"),  # a finish for no reason
        (replace(a_token(1), top_logprobs=(TokenLogprob(260, -1.0),)), "bad_token_id"),
        (replace(a_token(1), logprob=float("nan")), "not_finite"),
    ],
)
def test_a_token_that_cannot_be_ends_the_route(event: TokenEvent, code: str) -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(from_stage(1, event))
    assert failure_of(driven) == (code, 1)
    assert not any(isinstance(one, TokenReceived) for one in driven.machine.events())


def test_only_the_tail_draws_tokens() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(from_stage(0, a_token(1)))
    assert failure_of(driven) == ("edge_not_permitted", 0)


@pytest.mark.parametrize(
    "given_",
    [
        io.Received(0, EdgeMessage(SESSION, 1, 1, GATEWAY_STAGE, FAILURE)),  # for another stage
        io.Received(1, EdgeMessage(SESSION, 1, 1, 0, FAILURE)),  # on an edge without the Gateway
        from_stage(1, FAILURE, session=b"x" * 16),
        io.Received(0, EdgeMessage(SESSION, 1, 0, GATEWAY_STAGE, Ack(0))),  # the wrong way round
        from_stage(0, Ack(99)),  # never sent
        from_stage(1, PrefillProgress(301)),  # more than the prompt
    ],
)
def test_messages_that_cannot_be_end_the_route(given_: io.Received) -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(given_)
    assert failure_of(driven) == ("malformed", given_.sender)


def test_a_failure_names_the_stage_at_fault() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(from_stage(0, StageFailure("step_timeout", "stage 1 took too long", 1)))
    assert failure_of(driven) == ("step_timeout", 1)
    assert driven.machine.events() == [StageHealthChanged(1, StageState.LOST)]


def test_a_failure_that_blames_a_stage_which_is_not_there_is_its_sender_s() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(from_stage(0, StageFailure("step_timeout", "somebody took too long", 9)))
    assert failure_of(driven) == ("step_timeout", 0)


def test_the_first_failure_is_the_one_that_is_told() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(io.StageGone(1, 1, "stage_lost", "gone"), from_stage(0, StageFailure("idle", "later", 0)))
    assert failure_of(driven) == ("stage_lost", 1)
    assert len(driven.closes) == 1


def test_a_cancelled_route_is_closed_on_every_stage_once() -> None:
    driven = driven_to(RouteState.DECODE)
    actions = driven.give(io.Cancelled("client_gone"))
    assert [message.body for message in sent_messages(actions)] == [Close("client_gone")] * 2
    assert driven.give(io.Cancelled("again"), io.StageGone(1, 0, "stage_lost", "late")) == []
    assert len(driven.closes) == 1
