"""Both ends of the stream of token events from the tail to the Gateway, without I/O.

Invariants: indices are consecutive over the whole generation. The tail keeps every event until it is acknowledged, and
never runs further past the last acknowledgement than its window. The Gateway takes each index once, in order, and
nothing after the finish. Times are the caller's monotonic seconds. `TokenSender` is for tails written in Python; the
worker has its own, which must pass the same tests. Source: docs/wire.md, Credits and Finish.
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
    """The limits of one generation, and how far the tail may run ahead of the Gateway.

    Attributes:
        prompt_tokens: number of positions before the first generated token.
        max_tokens: most tokens to generate, `committed` included.
        end_tokens: ids that end the generation.
        vocab_size: number of token ids; each is below it.
        context_length: most positions that a sequence may have.
        committed: number of tokens that were generated before this epoch.
        token_window: most token events that the tail may send without an acknowledgement.
    """

    prompt_tokens: int
    max_tokens: int
    end_tokens: Collection[int]
    vocab_size: int
    context_length: int
    committed: int = 0
    token_window: int = 32

    def finish_of(self, index: int, token_id: int) -> FinishReason | None:
        """Return why the generation ends with this token, or None if it goes on."""
        if token_id in self.end_tokens:
            return FinishReason.STOP
        # At the end of the context there is no cell left to compute this token in.
        is_last = index + 1 >= self.max_tokens or self.prompt_tokens + index >= self.context_length
        return FinishReason.LENGTH if is_last else None


class TokenSender:
    """The tail's record of one generation's token events. It is not thread-safe."""

    def __init__(self, terms: GenerationTerms, now_s: float) -> None:
        self._terms = terms
        self._next_index = terms.committed
        self._first_unacknowledged = terms.committed
        self._unacknowledged: deque[TokenEvent] = deque()
        self._progress_at_s = now_s
        self.is_finished = False

    @property
    def next_index(self) -> int:
        """Index of the token that `commit` records next."""
        return self._next_index

    @property
    def has_window(self) -> bool:
        """Tell if one more token may be computed before the next acknowledgement."""
        return self._next_index < self._first_unacknowledged + self._terms.token_window

    @property
    def unacknowledged(self) -> tuple[TokenEvent, ...]:
        """The events that were not acknowledged, in order; the tail sends them again if the Gateway comes back."""
        return tuple(self._unacknowledged)

    def waiting_since_s(self) -> float | None:
        """Return the time at which the tail began to wait for an acknowledgement; None if it does not wait."""
        return None if self.is_finished or self.has_window else self._progress_at_s

    def commit(self, drawn: TokenEvent, now_s: float) -> TokenEvent:
        """Record a drawn token; return its event with `index`, `position` and `finish` filled in.

        Raises:
            ValueError: the generation has already finished.
        """
        if self.is_finished:
            raise ValueError("the generation has already finished")
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
        """Record that the Gateway has every event up to index `ack.seq`.

        Raises:
            MessageError: `malformed` if no event with that index was ever sent.
        """
        if ack.seq >= self._next_index:
            raise MessageError(FailureCode.MALFORMED, "an acknowledgement is of a token that was never sent")
        while self._unacknowledged and self._unacknowledged[0].index <= ack.seq:
            self._unacknowledged.popleft()
        if ack.seq >= self._first_unacknowledged:
            self._first_unacknowledged = ack.seq + 1
            self._progress_at_s = now_s


class TokenReceiver:
    """Checks the token events of a generation on the Gateway's side. It is not thread-safe."""

    def __init__(self, terms: GenerationTerms) -> None:
        self._terms = terms
        self._next_index = terms.committed
        self.is_finished = False
        self.repeated_events = 0

    @property
    def next_index(self) -> int:
        """Index of the event that must come next."""
        return self._next_index

    def receive(self, event: TokenEvent) -> TokenEvent | None:
        """Check an event and return it, or None if it came before.

        Raises:
            MessageError: `sequence_gap` if an event is missing; `bad_token_id` if the token is outside the vocabulary;
                `wrong_position` if the position does not follow from the index; `malformed` if the token comes after
                the generation's end or its finish is wrong.
        """
        if event.index < self._next_index:
            self.repeated_events += 1
            return None
        self._check(event)
        self._next_index += 1
        self.is_finished = event.finish is not None
        return event

    def ack(self) -> Ack | None:
        """Return one ack of all events received in this epoch, or None if none was received.

        Call it only after the caller has used all of these events, because the ack lets the tail send more.
        """
        return None if self._next_index == self._terms.committed else Ack(self._next_index - 1)

    def _check(self, event: TokenEvent) -> None:
        terms = self._terms
        if event.index > self._next_index:
            raise MessageError(FailureCode.SEQUENCE_GAP, f"token {event.index} came, but {self._next_index} is next")
        if self.is_finished or event.index >= terms.max_tokens:
            raise MessageError(FailureCode.MALFORMED, "a token comes after the generation's end")
        if event.token_id >= terms.vocab_size:
            raise MessageError(FailureCode.BAD_TOKEN_ID, "a token is outside the vocabulary")
        if event.position != terms.prompt_tokens + event.index:
            raise MessageError(FailureCode.WRONG_POSITION, "a token's position does not follow from its index")
        if event.finish != terms.finish_of(event.index, event.token_id):
            raise MessageError(FailureCode.MALFORMED, "a finish is missing, or the token gives no reason for it")
