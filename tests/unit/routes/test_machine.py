"""The route machine: every state and happening, and the stories of whole routes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshnet.constants import GATEWAY_STAGE, TOKEN_ACK_WINDOW
from meshnet.frame import (
    Ack,
    Close,
    EdgeMessage,
    FinishReason,
    Keepalive,
    PrefillProgress,
    SessionGone,
    StageFailure,
    StageResidence,
    TokenEvent,
    TokenLogprob,
)
from meshnet.generation.progress import PrefillAdvanced, StageHealthChanged, TokenReceived
from meshnet.ids import Edge
from meshnet.openai.events import FinishReason as ReaderFinish
from meshnet.openai.telemetry import StageState
from meshnet.v1 import session_pb2
from tests.unit.routes.route_kit import (
    DEADLINES,
    END_TOKEN,
    FAILURE,
    PROGRESS,
    SESSION,
    Driven,
    a_contract,
    a_plan,
    a_request,
    a_token,
    driven_to,
    from_stage,
)
from tracker_site.routes import machine_io as io
from tracker_site.routes.machine import MAX_ATTEMPTS
from tracker_site.routes.no_route import NoRouteError, NoRouteReason
from tracker_site.routes.request import RouteFailedError
from tracker_site.routes.transitions import TERMINAL, TRANSITIONS, Happening, RouteState, Step

NO_ROUTE = NoRouteError(NoRouteReason.MISSING_LAYERS, "Nobody serves layer 3.")
INPUTS: dict[Happening, io.RouteInput] = {
    Happening.PLANNED: io.Planned(a_plan()),
    Happening.PLAN_FAILED: io.PlanFailed(NO_ROUTE),
    Happening.RELAY_BOUND: io.RelayBound(1),
    Happening.RELAY_FAILED: io.RelayFailed(1, "relay_unavailable", "the relay is gone"),
    Happening.STAGE_OPENED: io.StageOpened(1, 0, a_contract(0)),
    Happening.STAGE_REFUSED: io.StageRefused(1, 1, "kv_exhausted", "no cells"),
    Happening.STAGE_GONE: io.StageGone(1, 1, "stage_lost", "gone"),
    Happening.NODE_QUIET: io.NodeQuiet(1, 1),
    Happening.ACK: from_stage(0, Ack(0)),
    Happening.PROGRESS: from_stage(1, PROGRESS),
    Happening.TOKEN: from_stage(1, a_token(1)),
    Happening.SESSION_GONE: from_stage(1, SessionGone("unknown_session")),
    Happening.FAILURE: from_stage(1, FAILURE),
    Happening.OTHER_MESSAGE: from_stage(1, Keepalive()),
    Happening.CANCEL: io.Cancelled("stop"),
}


def messages(actions: list[io.RouteAction]) -> list[EdgeMessage]:
    return [action.message for action in actions if isinstance(action, io.SendMessage)]


def chunks(actions: list[io.RouteAction]) -> list[io.SendFrame]:
    return [action for action in actions if isinstance(action, io.SendFrame)]


def failure(driven: Driven) -> tuple[str, int | None]:
    error = driven.machine.failure
    assert isinstance(error, RouteFailedError)
    return error.code, error.stage


# --- the table ---


def test_every_state_and_happening_has_a_cell() -> None:
    assert set(TRANSITIONS) == set(product(RouteState, Happening))
    assert all(TRANSITIONS[state, happening] is Step.IGNORE for state in TERMINAL for happening in Happening)


@pytest.mark.parametrize(("state", "happening"), list(product(RouteState, Happening)))
def test_each_cell_does_what_the_table_says(  # noqa: C901 - one case a step
    state: RouteState, happening: Happening
) -> None:
    driven = driven_to(state)
    if happening is Happening.TIMEOUT:
        driven.now_s += 3_600
        driven.machine.tick(driven.now_s)
        actions = driven.take()
    else:
        actions = driven.give(INPUTS[happening])
    events, machine = driven.machine.events(), driven.machine
    closes = [action for action in actions if isinstance(action, io.CloseAttempt)]
    match TRANSITIONS[state, happening]:
        case Step.IGNORE:
            assert (machine.state, actions, events) == (state, [], [])
        case Step.OPEN:
            assert (machine.state, [type(action) for action in actions]) == (RouteState.OPENING, [io.OpenAttempt])
        case Step.NOTE_BOUND | Step.NOTE_OPENED:
            assert (machine.state, actions) == (RouteState.OPENING, [])
        case Step.RETRY:
            assert machine.state is RouteState.PLANNING
            assert [type(action) for action in actions] == [io.CloseAttempt, io.PlanRoute]
        case Step.FEED:
            assert (machine.state, len(closes)) == (state, 0)
        case Step.ADVANCE:
            assert (machine.state, events) == (state, [PrefillAdvanced(128, 300)])
        case Step.TAKE_TOKEN:
            # In PREFILL the prompt has not all left, so that a token is a lie.
            assert machine.state is (RouteState.DECODE if state is RouteState.DECODE else RouteState.FAILED)
        case Step.NOTE_LATE:
            assert (machine.state, events) == (state, [StageHealthChanged(1, StageState.LATE)])
        case Step.FAIL:
            assert machine.state is RouteState.FAILED
            assert machine.failure is not None
            assert len(closes) == (0 if state is RouteState.PLANNING else 1)
        case Step.CANCEL:
            assert machine.state is RouteState.CANCELLED
            assert len(closes) == (0 if state is RouteState.PLANNING else 1)
    assert (machine.next_deadline_s() is None) == (machine.state in TERMINAL)


# --- opening ---


def test_a_new_route_asks_for_a_plan() -> None:
    assert Driven().take() == [io.PlanRoute(frozenset())]


def test_nothing_is_sent_before_everything_is_open() -> None:
    driven = Driven()
    driven.plan()
    assert driven.give(io.StageOpened(1, 1, a_contract(1)), io.RelayBound(1)) == []
    assert driven.state() is RouteState.OPENING
    actions = driven.give(io.StageOpened(1, 0, a_contract(0)))
    assert driven.state() is RouteState.PREFILL
    sent = [chunk.frame for chunk in chunks(actions)]
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
    assert failure(driven) == ("contract_mismatch", stage)


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
    closing = [message for message in messages(actions) if isinstance(message.body, Close)]
    assert [message.to_stage for message in closing] == [0, 1]
    assert [type(action) for action in actions[-2:]] == [io.CloseAttempt, io.PlanRoute]
    assert actions[-1] == io.PlanRoute(frozenset({"node1"}))
    (opened,) = driven.plan()
    assert isinstance(opened, io.OpenAttempt)
    assert opened.terms.key.epoch == 2


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
    assert failure(driven) == ("too_many_sessions", 0)
    assert len(driven.closes) == MAX_ATTEMPTS


def test_when_no_other_node_is_left_the_refusal_is_what_is_told() -> None:
    driven = Driven()
    driven.plan()
    driven.give(io.StageRefused(1, 1, "kv_exhausted", "no cells"), io.PlanFailed(NO_ROUTE))
    assert failure(driven) == ("kv_exhausted", 1)
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
    assert failure(driven) == ("stage_lost", None)


def test_a_planner_that_does_not_answer_is_not_waited_for() -> None:
    driven = Driven()
    driven.wait(DEADLINES.open_s)
    assert failure(driven) == ("planning_timeout", None)


# --- prefill ---


@pytest.mark.parametrize("prompt_tokens", [1, 127, 128, 129, 384, 1000])
def test_chunks_cover_the_prompt_once_within_the_window(prompt_tokens: int) -> None:
    driven = Driven(a_request(prompt_tokens))
    driven.plan()
    frames = [chunk.frame for chunk in chunks(driven.open())]
    rows, window = driven.chunking.rows, driven.chunking.windows[0].frames
    assert len(frames) <= window
    acknowledged = 0
    while acknowledged < len(frames):
        frames.extend(chunk.frame for chunk in chunks(driven.give(from_stage(0, Ack(acknowledged)))))
        acknowledged += 1
        assert len(frames) - acknowledged <= window
    assert tuple(token for frame in frames for token in frame.token_ids) == driven.request.prompt_tokens
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    assert [frame.position for frame in frames] == list(range(0, prompt_tokens, rows))
    assert [frame.prompt_end for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert [frame.logits_rows for frame in frames][:-1] == [()] * (len(frames) - 1)
    assert frames[-1].logits_rows == (frames[-1].rows - 1,)


def test_progress_is_what_the_whole_route_has_computed() -> None:
    driven = Driven()
    driven.plan()
    driven.open()
    driven.give(from_stage(0, PrefillProgress(256)), from_stage(1, PrefillProgress(128)))
    driven.give(from_stage(1, PrefillProgress(128)), from_stage(1, PrefillProgress(300)))
    assert driven.machine.events() == [PrefillAdvanced(128, 300), PrefillAdvanced(300, 300)]


def test_a_prompt_that_makes_progress_has_all_the_time_it_needs() -> None:
    driven = Driven(a_request(3000))
    driven.plan()
    driven.open()
    for seq in range(24):
        driven.wait(9.0)
        driven.give(from_stage(0, Ack(seq)), from_stage(1, PrefillProgress(min(3000, 128 * (seq + 1)))))
    assert driven.state() is RouteState.PREFILL


def test_silence_ends_the_route_and_names_the_most_silent_stage() -> None:
    driven = Driven()
    driven.plan()
    driven.open()
    driven.wait(1.0)
    driven.give(from_stage(0, Ack(0)))
    driven.wait(60.0)
    assert failure(driven) == ("step_timeout", 1)
    assert len(driven.closes) == 1


@pytest.mark.parametrize(
    ("state", "gone", "blamed"),
    [
        (RouteState.PREFILL, None, 0),  # nobody was heard: the head owes an ack
        (RouteState.DECODE, None, 1),  # the last token was everybody's: the tail owes the next
        (RouteState.PREFILL, 1, 1),
        (RouteState.DECODE, 0, 0),
    ],
)
def test_silence_is_laid_to_who_left_or_owes_the_next_word(state: RouteState, gone: int | None, blamed: int) -> None:
    driven = driven_to(state)
    driven.wait(5.0)
    if gone is not None:
        driven.give(io.NodeQuiet(1, gone))
    driven.wait(60.0)
    assert failure(driven) == ("step_timeout", blamed)


def test_the_gateway_s_deadline_passes_after_the_stages_own() -> None:
    driven = Driven()
    driven.plan()
    driven.open()
    terms = driven.machine.terms
    assert terms is not None
    driven.wait(terms.step_s * terms.n_stages + DEADLINES.margin_s / 2)
    assert driven.state() is RouteState.PREFILL


# --- decode ---


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
    assert [message.body for message in messages(actions)] == [Close("finished"), Close("finished")]
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
    assert failure(driven) == (code, 1)
    assert not any(isinstance(one, TokenReceived) for one in driven.machine.events())


def test_only_the_tail_draws_tokens() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(from_stage(0, a_token(1)))
    assert failure(driven) == ("edge_not_permitted", 0)


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
    assert failure(driven) == ("malformed", given_.sender)


def test_a_failure_names_the_stage_at_fault() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(from_stage(0, StageFailure("step_timeout", "stage 1 took too long", 1)))
    assert failure(driven) == ("step_timeout", 1)
    assert driven.machine.events() == [StageHealthChanged(1, StageState.LOST)]


def test_a_failure_that_blames_a_stage_which_is_not_there_is_its_sender_s() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(from_stage(0, StageFailure("step_timeout", "somebody took too long", 9)))
    assert failure(driven) == ("step_timeout", 0)


def test_the_first_failure_is_the_one_that_is_told() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.give(io.StageGone(1, 1, "stage_lost", "gone"), from_stage(0, StageFailure("idle", "later", 0)))
    assert failure(driven) == ("stage_lost", 1)
    assert len(driven.closes) == 1


def test_a_cancelled_route_is_closed_on_every_stage_once() -> None:
    driven = driven_to(RouteState.DECODE)
    actions = driven.give(io.Cancelled("client_gone"))
    assert [message.body for message in messages(actions)] == [Close("client_gone")] * 2
    assert driven.give(io.Cancelled("again"), io.StageGone(1, 0, "stage_lost", "late")) == []
    assert len(driven.closes) == 1


# --- acknowledgements ---


def test_a_tail_that_runs_past_its_window_ends_the_route() -> None:
    driven = driven_to(RouteState.DECODE)
    for index in range(1, TOKEN_ACK_WINDOW):
        driven.token(index)
    assert driven.state() is RouteState.DECODE
    driven.token(TOKEN_ACK_WINDOW)
    assert failure(driven) == ("window_exceeded", 1)


def test_acknowledgements_are_cumulative_and_few() -> None:
    driven = driven_to(RouteState.DECODE)
    sent: list[EdgeMessage] = []
    for index in range(1, 33):
        sent += messages(driven.token(index))
        driven.machine.acknowledge(index, driven.now_s)
        sent += messages(driven.take())
    assert [message.body for message in sent] == [Ack(7), Ack(15), Ack(23), Ack(31)]
    assert {message.edge for message in sent} == {Edge(1, GATEWAY_STAGE)}


def test_a_token_is_acknowledged_soon_even_alone() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.machine.acknowledge(0, driven.now_s)
    assert driven.take() == []
    assert [message.body for message in messages(driven.wait(DEADLINES.ack_delay_s))] == [Ack(0)]
    assert messages(driven.wait(1.0)) == []


def test_acknowledging_again_or_less_sends_nothing() -> None:
    driven = driven_to(RouteState.DECODE)
    driven.machine.acknowledge(0, driven.now_s)
    driven.wait(DEADLINES.ack_delay_s)
    driven.machine.acknowledge(0, driven.now_s)
    assert messages(driven.wait(1.0)) == []


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
        for message in messages(driven.take()):
            assert isinstance(message.body, Ack)
            acknowledged = message.body.seq


# --- health and keepalive ---


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
        kept += messages(driven.wait(1.0))
    alive = [message for message in kept if isinstance(message.body, Keepalive)]
    assert {message.to_stage for message in alive} == {0, 1}
    assert len(alive) >= 2 * 2


# --- anything at all ---

STORIES = st.lists(st.sampled_from([*Happening]), max_size=30)


@settings(max_examples=150)
@given(STORIES, st.lists(st.floats(0.0, 12.0), max_size=30))
def test_whatever_happens_every_attempt_is_closed_once_and_the_end_is_final(
    story: list[Happening], pauses: list[float]
) -> None:
    driven = Driven()
    for number, happening in enumerate(story):
        if happening is Happening.TIMEOUT:
            driven.wait(pauses[number] if number < len(pauses) else 1.0)
        else:
            driven.give(INPUTS[happening])
    driven.wait(600.0)
    assert driven.machine.is_over
    opened = [action.terms.key for action in driven.done if isinstance(action, io.OpenAttempt)]
    assert [close.terms.key for close in driven.closes] == opened
    assert opened == sorted(opened, key=lambda key: key.epoch)
    assert (driven.state() is RouteState.FAILED) == (driven.machine.failure is not None)
    assert driven.give(*INPUTS.values()) == []
