"""Both ends of the stream of token events, without I/O.

Invariants: indices are consecutive over the whole generation; the tail keeps every event until it is acknowledged and
never runs more than its window past the last acknowledgement; the Gateway takes each index once, in order, and nothing
after the finish. Times are the caller's monotonic seconds. `TokenSender` is for tails that are written in Python; the
worker has its own, which the same tests hold. Source: docs/wire.md, Credits and Finish.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.failure_codes import FailureCode
from meshnet.frame import Ack, FinishReason, MessageError, TokenEvent

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class GenerationTerms:
    """What ends a generation, and how far it may run ahead.

    Attributes:
        prompt_tokens: positions before the first generated token.
        max_tokens: generated at most, `committed` included.
        committed: tokens generated before this epoch.
        context_length: positions a sequence may hold.
        token_window: events without an acknowledgement.
    """

    prompt_tokens: int
    max_tokens: int
    end_tokens: Collection[int]
    vocab_size: int
    context_length: int
    committed: int = 0
    token_window: int = 32

    def finish_of(self, index: int, token_id: int) -> FinishReason | None:
        """Why the generation ends with this token, or None."""
        if token_id in self.end_tokens:
            return FinishReason.STOP
        # A token at the context's end has no cell to be computed in.
        is_last = index + 1 >= self.max_tokens or self.prompt_tokens + index >= self.context_length
        return FinishReason.LENGTH if is_last else None


class TokenSender:
    """The tail's book of one generation. Not thread-safe."""

    def __init__(self, terms: GenerationTerms, now_s: float) -> None:
        self._terms = terms
        self._next_index = terms.committed
        self._first_unacknowledged = terms.committed
        self._unacknowledged: deque[TokenEvent] = deque()
        self._progress_at_s = now_s
        self.is_finished = False

    @property
    def next_index(self) -> int:
        """Index of the next token."""
        return self._next_index

    @property
    def has_window(self) -> bool:
        """Whether one more token may be computed before the next acknowledgement."""
        return self._next_index < self._first_unacknowledged + self._terms.token_window

    @property
    def unacknowledged(self) -> tuple[TokenEvent, ...]:
        """Events to send again to a Gateway that came back, in order."""
        return tuple(self._unacknowledged)

    def waiting_since_s(self) -> float | None:
        """Since when nothing was acknowledged while the window is full; None where it is not."""
        return None if self.is_finished or self.has_window else self._progress_at_s

    def commit(self, drawn: TokenEvent, now_s: float) -> TokenEvent:
        """Record a drawn token; returns its event with `index`, `position` and `finish` filled in.

        Raises:
            ValueError: the generation has finished.
        """
        if self.is_finished:
            raise ValueError("the generation has finished")
        index = self._next_index
        event = TokenEvent(
            index=index,
            token_id=drawn.token_id,
            position=self._terms.prompt_tokens + index,
            finish=self._terms.finish_of(index, drawn.token_id),
            choice=drawn.choice,
            logprob=drawn.logprob,
            top_logprobs=drawn.top_logprobs,
            residence=drawn.residence,
        )
        self._next_index += 1
        self._unacknowledged.append(event)
        self.is_finished = event.finish is not None
        if not self.has_window:
            self._progress_at_s = now_s
        return event

    def acknowledge(self, ack: Ack, now_s: float) -> None:
        """The Gateway has everything up to `ack.seq`.

        Raises:
            MessageError: `malformed`: never sent.
        """
        if ack.seq >= self._next_index:
            raise MessageError(FailureCode.MALFORMED, "an acknowledgement of a token that was never sent")
        while self._unacknowledged and self._unacknowledged[0].index <= ack.seq:
            self._unacknowledged.popleft()
        if ack.seq >= self._first_unacknowledged:
            self._first_unacknowledged = ack.seq + 1
            self._progress_at_s = now_s


class TokenReceiver:
    """The Gateway's check of a generation's events. Not thread-safe."""

    def __init__(self, terms: GenerationTerms) -> None:
        self._terms = terms
        self._next_index = terms.committed
        self.is_finished = False
        self.repeated_events = 0

    @property
    def next_index(self) -> int:
        """Index of the next event."""
        return self._next_index

    def receive(self, event: TokenEvent) -> TokenEvent | None:
        """Take an event; None for one that was seen before.

        Raises:
            MessageError: a gap (`sequence_gap`), a token outside the vocabulary (`bad_token_id`), another position than
                the index says (`wrong_position`), or a token past the limits or a finish for no reason (`malformed`).
        """
        if event.index < self._next_index:
            self.repeated_events += 1
            return None
        self._check(event)
        self._next_index += 1
        self.is_finished = event.finish is not None
        return event

    def ack(self) -> Ack | None:
        """What to acknowledge now, once its reader has taken it all; None before the first event of this epoch."""
        return None if self._next_index == self._terms.committed else Ack(self._next_index - 1)

    def _check(self, event: TokenEvent) -> None:
        terms = self._terms
        if event.index > self._next_index:
            raise MessageError(FailureCode.SEQUENCE_GAP, f"token {event.index} where {self._next_index} is next")
        if self.is_finished or event.index >= terms.max_tokens:
            raise MessageError(FailureCode.MALFORMED, "a token past the generation's end")
        if event.token_id >= terms.vocab_size:
            raise MessageError(FailureCode.BAD_TOKEN_ID, "a token outside the vocabulary")
        if event.position != terms.prompt_tokens + event.index:
            raise MessageError(FailureCode.WRONG_POSITION, "a token's position does not follow from its index")
        if event.finish != terms.finish_of(event.index, event.token_id):
            raise MessageError(FailureCode.MALFORMED, "a finish that the token gives no reason for, or none where due")
