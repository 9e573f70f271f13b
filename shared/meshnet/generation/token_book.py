"""Checks and acknowledges the token events of a generation for the reader (the Gateway, or a node's own API).

Invariants: pure; `TokenReceiver` checks every event. An acknowledgement covers all earlier tokens. A token is
acknowledged after the reader has taken it, and at most `ack_delay_s` after that. Source: docs/wire.md, Credits.
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
    """The facts of a request against which the generated tokens are checked."""

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
        """Number of token ids in the vocabulary; every id is below it."""


def token_terms(asked: AskedGeneration, context_length: int) -> GenerationTerms:
    """Return the limits that a generation's tokens must keep. `context_length` is the tail's, in positions."""
    return GenerationTerms(
        prompt_tokens=len(asked.prompt_tokens),
        max_tokens=asked.max_tokens,
        end_tokens=frozenset(asked.end_tokens),
        vocab_size=asked.vocabulary_size,
        context_length=context_length,
        token_window=TOKEN_ACK_WINDOW,
    )


class TokenBook:
    """Checks and acknowledges the tokens of one generation, from its first token on.

    Args:
        terms: the limits that the tokens must keep, as `token_terms` returns them.
        ack_delay_s: longest time in seconds from taking a token to acknowledging it.
    """

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
        """Tell if the generation's last token has come."""
        return self._receiver.is_finished

    @property
    def is_tail_waiting(self) -> bool:
        """Tell if the tail's window is full, so that it waits for an acknowledgement."""
        return self._receiver.next_index > self._acknowledged + TOKEN_ACK_WINDOW

    def reader_waits_since_s(self) -> float | None:
        """Return the time in seconds since which the reader waits, because it has taken all tokens that came.

        None if it has not taken all of them, or if no token has come.
        """
        return self._caught_up_s if self._taken + 1 == self._receiver.next_index else None

    def receive(self, event: TokenEvent) -> TokenReceived | None:
        """Check an event and return its token, or None if the event is a repetition.

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
        """Record that the reader took all tokens up to `index`. If it had taken them before, nothing changes.

        Raises:
            ValueError: the token `index` has not come yet.
        """
        if index >= self._receiver.next_index:
            raise ValueError(f"token {index} has not come")
        if index > self._taken:
            self._taken = index
            self._caught_up_s = now_s
            if self._ack_due_s is None:
                self._ack_due_s = now_s + self._ack_delay_s

    def take_ack(self, now_s: float) -> Ack | None:
        """Return the acknowledgement that the caller must send now, or None if none is due."""
        is_due = self._ack_due_s is not None and self._ack_due_s <= now_s
        if self._taken - self._acknowledged < _ACK_EVERY and not is_due:
            return None
        self._ack_due_s = None
        if self._taken == self._acknowledged:
            return None
        self._acknowledged = self._taken
        return Ack(self._taken)

    def next_deadline_s(self) -> float | None:
        """Return the time in seconds at which the next acknowledgement is due; None if there is none to send."""
        return self._ack_due_s

    def _check_logprobs(self, event: TokenEvent) -> None:
        if any(one.token_id >= self._vocabulary_size for one in event.top_logprobs):
            raise MessageError(FailureCode.BAD_TOKEN_ID, "an alternative is outside the vocabulary")
        logprobs = [one.logprob for one in event.top_logprobs]
        if event.logprob is not None:
            logprobs.append(event.logprob)
        if any(math.isnan(logprob) or logprob == math.inf for logprob in logprobs):
            raise MessageError(FailureCode.NOT_FINITE, "a log probability is not a number")
