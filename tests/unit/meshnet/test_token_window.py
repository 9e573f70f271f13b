from __future__ import annotations

from dataclasses import replace

import pytest

from meshnet.frame import Ack, FinishReason, MessageError, TokenEvent
from meshnet.token_window import GenerationTerms, TokenReceiver, TokenSender

TERMS = GenerationTerms(
    prompt_tokens=10, max_tokens=100, end_tokens={7}, vocab_size=50, context_length=1000, token_window=4
)


def drawn(token_id: int = 1) -> TokenEvent:
    return TokenEvent(index=0, token_id=token_id, position=0)


def test_events_are_numbered_and_placed() -> None:
    sender = TokenSender(TERMS, 0.0)
    events = [sender.commit(drawn(token), 0.0) for token in (1, 2, 3)]
    assert [(event.index, event.token_id, event.position) for event in events] == [(0, 1, 10), (1, 2, 11), (2, 3, 12)]


def test_a_recovered_generation_goes_on_where_it_was() -> None:
    sender = TokenSender(replace(TERMS, committed=5), 0.0)
    event = sender.commit(drawn(), 0.0)
    assert (event.index, event.position) == (5, 15)
    assert TokenReceiver(replace(TERMS, committed=5)).receive(event) == event


@pytest.mark.parametrize(
    ("terms", "token_id", "finish"),
    [
        (TERMS, 1, None),
        (TERMS, 7, FinishReason.STOP),
        (replace(TERMS, max_tokens=1), 1, FinishReason.LENGTH),
        (replace(TERMS, max_tokens=1), 7, FinishReason.STOP),
        (replace(TERMS, context_length=10), 1, FinishReason.LENGTH),
        (replace(TERMS, context_length=11), 1, None),
    ],
)
def test_the_tail_decides_the_finish(terms: GenerationTerms, token_id: int, finish: FinishReason | None) -> None:
    sender = TokenSender(terms, 0.0)
    assert sender.commit(drawn(token_id), 0.0).finish is finish
    assert sender.is_finished is (finish is not None)


def test_nothing_follows_the_finish() -> None:
    sender = TokenSender(TERMS, 0.0)
    sender.commit(drawn(7), 0.0)
    with pytest.raises(ValueError, match="finished"):
        sender.commit(drawn(), 0.0)


def test_the_window_closes_and_opens() -> None:
    sender = TokenSender(TERMS, 0.0)
    for at_s in (1.0, 2.0, 3.0, 4.0):
        assert sender.has_window
        sender.commit(drawn(), at_s)
    assert not sender.has_window
    assert sender.waiting_since_s() == 4.0
    sender.acknowledge(Ack(0), 5.0)
    assert sender.has_window
    assert sender.waiting_since_s() is None
    assert [event.index for event in sender.unacknowledged] == [1, 2, 3]


def test_progress_while_waiting_moves_the_grace() -> None:
    sender = TokenSender(TERMS, 0.0)
    for _ in range(4):
        sender.commit(drawn(), 1.0)
    sender.acknowledge(Ack(0), 2.0)
    sender.commit(drawn(), 2.5)
    assert sender.waiting_since_s() == 2.5
    sender.acknowledge(Ack(0), 9.0)
    assert sender.waiting_since_s() == 2.5


def test_a_finished_generation_waits_for_nobody() -> None:
    sender = TokenSender(replace(TERMS, max_tokens=4), 0.0)
    for _ in range(4):
        sender.commit(drawn(), 1.0)
    assert sender.waiting_since_s() is None
    assert len(sender.unacknowledged) == 4


def test_an_acknowledgement_of_what_was_never_sent() -> None:
    with pytest.raises(MessageError) as refused:
        TokenSender(TERMS, 0.0).acknowledge(Ack(0), 0.0)
    assert refused.value.code == "malformed"


def event_at(index: int, **changes: object) -> TokenEvent:
    return replace(TokenEvent(index=index, token_id=1, position=10 + index), **changes)


def test_the_gateway_takes_each_event_once() -> None:
    receiver = TokenReceiver(TERMS)
    assert receiver.ack() is None
    assert receiver.receive(event_at(0)) == event_at(0)
    assert receiver.receive(event_at(0)) is None
    assert receiver.receive(event_at(1)) == event_at(1)
    assert (receiver.repeated_events, receiver.ack()) == (1, Ack(1))


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (event_at(1), "sequence_gap"),
        (event_at(0, token_id=50), "bad_token_id"),
        (event_at(0, position=11), "wrong_position"),
        (event_at(0, finish=FinishReason.STOP), "malformed"),
        (event_at(0, finish=FinishReason.LENGTH), "malformed"),
        (event_at(0, token_id=7), "malformed"),
    ],
)
def test_the_gateway_refuses_what_does_not_follow(event: TokenEvent, code: str) -> None:
    with pytest.raises(MessageError) as refused:
        TokenReceiver(TERMS).receive(event)
    assert refused.value.code == code


def test_the_gateway_takes_nothing_after_the_finish() -> None:
    receiver = TokenReceiver(TERMS)
    receiver.receive(event_at(0, token_id=7, finish=FinishReason.STOP))
    with pytest.raises(MessageError):
        receiver.receive(event_at(1))
