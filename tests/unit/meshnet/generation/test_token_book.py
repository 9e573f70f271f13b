"""The one place where a reader's token events are checked: what no honest tail sends is never believed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.frame import Ack, FinishReason, MessageError, TokenEvent, TokenLogprob
from meshnet.generation.token_book import TokenBook, token_terms
from meshnet.token_window import GenerationTerms

END_TOKEN = 7
TERMS = GenerationTerms(
    prompt_tokens=10, max_tokens=100, end_tokens={END_TOKEN}, vocab_size=50, context_length=1000, token_window=32
)
ACK_DELAY_S = 0.25


def an_event(index: int, token_id: int = 1, **changes: object) -> TokenEvent:
    event = TokenEvent(index=index, token_id=token_id, position=TERMS.prompt_tokens + index)
    return replace(event, **changes)  # type: ignore[arg-type]  # a test's builder


def a_book(tokens: int = 0, **changes: object) -> TokenBook:
    """A book with so many tokens taken in and none by its reader."""
    book = TokenBook(replace(TERMS, **changes), ACK_DELAY_S)  # type: ignore[arg-type]  # a test's builder
    for index in range(tokens):
        assert book.receive(an_event(index)) is not None
    return book


@dataclass(frozen=True)
class Asked:
    prompt_tokens: tuple[int, ...] = (1, 2, 3)
    max_tokens: int = 4
    end_tokens: tuple[int, ...] = (7, 8, 7)
    vocabulary_size: int = 50


def test_the_terms_are_the_requests_with_the_tails_context_and_the_protocols_window() -> None:
    assert token_terms(Asked(), 512) == GenerationTerms(
        prompt_tokens=3, max_tokens=4, end_tokens={7, 8}, vocab_size=50, context_length=512, token_window=32
    )


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (an_event(2), "sequence_gap"),
        (an_event(1, 50), "bad_token_id"),
        (an_event(1, position=10), "wrong_position"),
        (an_event(1, END_TOKEN), "malformed"),  # an end token without a finish
        (an_event(1, finish=FinishReason.STOP), "malformed"),  # a finish for no reason
        (an_event(1, logprob=math.nan), "not_finite"),
        (an_event(1, logprob=math.inf), "not_finite"),
        (an_event(1, logprob=-1.0, top_logprobs=(TokenLogprob(50, -1.0),)), "bad_token_id"),
        (an_event(1, logprob=-1.0, top_logprobs=(TokenLogprob(6, math.nan),)), "not_finite"),
        (an_event(1, logprob=-1.0, top_logprobs=(TokenLogprob(6, math.inf),)), "not_finite"),
    ],
)
def test_a_token_that_cannot_be_is_refused(event: TokenEvent, code: str) -> None:
    with pytest.raises(MessageError) as caught:
        a_book(tokens=1).receive(event)
    assert caught.value.code == code


def test_an_impossible_alternative_is_as_good_as_minus_infinity() -> None:
    token = a_book().receive(an_event(0, logprob=-math.inf, top_logprobs=(TokenLogprob(6, -math.inf),)))
    assert token is not None
    assert token.top_logprobs == ((6, -math.inf),)


def test_a_repeat_is_not_told_twice() -> None:
    assert a_book(tokens=1).receive(an_event(0)) is None


def test_no_more_tokens_than_were_asked_for() -> None:
    book = a_book(tokens=2, max_tokens=3)
    last = book.receive(an_event(2, finish=FinishReason.LENGTH))
    assert last is not None
    assert book.is_finished
    with pytest.raises(MessageError, match="after the generation's end"):
        book.receive(an_event(3))


def test_no_token_further_ahead_than_the_window() -> None:
    book = a_book(tokens=TOKEN_ACK_WINDOW)
    assert book.is_tail_waiting
    with pytest.raises(MessageError) as caught:
        book.receive(an_event(TOKEN_ACK_WINDOW))
    assert caught.value.code == "window_exceeded"


def test_what_the_reader_took_is_acknowledged_in_quarters_or_after_the_delay() -> None:
    book = a_book(tokens=20)
    book.take(6, 1.0)
    assert (book.take_ack(1.0), book.next_deadline_s()) == (None, 1.0 + ACK_DELAY_S)
    assert book.take_ack(1.0 + ACK_DELAY_S) == Ack(6)
    book.take(14, 2.0)
    assert book.take_ack(2.0) == Ack(14)
    assert (book.take_ack(9.0), book.next_deadline_s()) == (None, None)


def test_nothing_is_acknowledged_that_has_not_come() -> None:
    with pytest.raises(ValueError, match="has not come"):
        a_book(tokens=1).take(1, 0.0)


def test_a_reader_waits_since_it_took_the_last_token_that_came() -> None:
    book = a_book()
    assert book.reader_waits_since_s() is None
    book.receive(an_event(0))
    assert book.reader_waits_since_s() is None
    book.take(0, 5.0)
    assert book.reader_waits_since_s() == 5.0
    book.receive(an_event(1))
    assert book.reader_waits_since_s() is None
