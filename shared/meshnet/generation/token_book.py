"""Checks the token events of a generation on the reader's side, and acknowledges them.

Invariants: pure; `TokenReceiver` checks every event. An acknowledgement covers all earlier tokens. A token is never
acknowledged before the reader took it, nor later than the delay after that. Source: docs/wire.md, Credits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.failure_codes import FailureCode
from meshnet.frame import Ack, MessageError
from meshnet.frame import FinishReason as WireFinish
from meshnet.generation.progress import TokenReceived
from meshnet.openai.events import FinishReason
from meshnet.openai.telemetry import Residence
from meshnet.token_window import GenerationTerms, TokenReceiver

if TYPE_CHECKING:
    from collections.abc import Collection, Sized

    from meshnet.frame import TokenEvent

# One acknowledgement for each quarter of the window: few messages, and the tail never stops while one is on its way.
_ACK_EVERY: Final = TOKEN_ACK_WINDOW // 4
_FINISHES: Final = {WireFinish.STOP: FinishReason.STOP, WireFinish.LENGTH: FinishReason.LENGTH}


class AskedGeneration(Protocol):
    """The facts of a request that its tokens are checked against."""

    @property
    def prompt_tokens(self) -> Sized:
        """Token ids of the whole prompt."""

    @property
    def max_tokens(self) -> int:
        """Most tokens that may be generated."""

    @property
    def end_tokens(self) -> Collection[int]:
        """Ids that end the generation."""

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids; each is below it."""


def token_terms(asked: AskedGeneration, context_length: int) -> GenerationTerms:
    """Return the terms that a generation's tokens must obey; `context_length` is that of the opened tail."""
    return GenerationTerms(
        prompt_tokens=len(asked.prompt_tokens),
        max_tokens=asked.max_tokens,
        end_tokens=frozenset(asked.end_tokens),
        vocab_size=asked.vocabulary_size,
        context_length=context_length,
        token_window=TOKEN_ACK_WINDOW,
    )


class TokenBook:
    """The tokens of one generation that begins with this route. `terms` are those of the opened tail."""

    def __init__(self, terms: GenerationTerms, ack_delay_s: float) -> None:
        self._receiver = TokenReceiver(terms)
        self._vocabulary_size = terms.vocab_size
        self._ack_delay_s = ack_delay_s
        self._taken = -1
        self._acknowledged = -1
        self._ack_due_s: float | None = None
        self._caught_up_s: float | None = None

    @property
    def is_finished(self) -> bool:
        """Tell if the last token has come."""
        return self._receiver.is_finished

    @property
    def is_tail_waiting(self) -> bool:
        """Tell if the tail must wait for the next acknowledgement."""
        return self._receiver.next_index > self._acknowledged + TOKEN_ACK_WINDOW

    def reader_waits_since_s(self) -> float | None:
        """Return the time in seconds since which the reader has every token; None if it lacks one or has none."""
        return self._caught_up_s if self._taken + 1 == self._receiver.next_index else None

    def receive(self, event: TokenEvent) -> TokenReceived | None:
        """Check an event. Return its token, or None if the event came before.

        Raises:
            MessageError: the event breaks a rule that every honest tail keeps.
        """
        if event.index > self._acknowledged + TOKEN_ACK_WINDOW:
            raise MessageError(FailureCode.WINDOW_EXCEEDED, "a token is further ahead than the tail's window allows")
        taken = self._receiver.receive(event)
        if taken is None:
            return None
        self._check_logprobs(taken)
        return TokenReceived(
            index=taken.index,
            token_id=taken.token_id,
            logprob=taken.logprob,
            top_logprobs=tuple((one.token_id, one.logprob) for one in taken.top_logprobs),
            finish=None if taken.finish is None else _FINISHES[taken.finish],
            residence=tuple(
                (one.stage, Residence(queue_us=one.queue_us, compute_us=one.compute_us, codec_us=one.codec_us))
                for one in taken.residence
            ),
        )

    def take(self, index: int, now_s: float) -> None:
        """Record that the reader took everything up to `index`. A smaller or equal index changes nothing.

        Raises:
            ValueError: no such token has come.
        """
        if index >= self._receiver.next_index:
            raise ValueError(f"token {index} has not come")
        if index > self._taken:
            self._taken = index
            self._caught_up_s = now_s
            if self._ack_due_s is None:
                self._ack_due_s = now_s + self._ack_delay_s

    def take_ack(self, now_s: float) -> Ack | None:
        """Return the acknowledgement to send now, or None if none is due."""
        is_due = self._ack_due_s is not None and self._ack_due_s <= now_s
        if self._taken - self._acknowledged < _ACK_EVERY and not is_due:
            return None
        self._ack_due_s = None
        if self._taken == self._acknowledged:
            return None
        self._acknowledged = self._taken
        return Ack(self._taken)

    def next_deadline_s(self) -> float | None:
        """Return the time at which an acknowledgement is due, in seconds; None if none is."""
        return self._ack_due_s

    def _check_logprobs(self, event: TokenEvent) -> None:
        if any(one.token_id >= self._vocabulary_size for one in event.top_logprobs):
            raise MessageError(FailureCode.BAD_TOKEN_ID, "an alternative is outside the vocabulary")
        logprobs = [one.logprob for one in event.top_logprobs]
        if event.logprob is not None:
            logprobs.append(event.logprob)
        if any(math.isnan(logprob) or logprob == math.inf for logprob in logprobs):
            raise MessageError(FailureCode.NOT_FINITE, "a log probability is not a number")
