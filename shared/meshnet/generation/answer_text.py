"""Turns an answer's tokens into text for the client. Unfinished characters and possible stop strings are held back.

Invariants: the tokens have been checked (`token_book`). If tokens are asked for, each is released as soon as all of its
text is. A token that begins in a stop string or after it is never released. The text does not depend on how it was
tokenised. Source: docs/wire.md, Finish.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.openai.events import Alternative, FinishReason, GeneratedToken, PlacedToken, TextDelta
from meshnet.openai.stop_strings import StopStrings
from meshnet.openai.utf8 import Utf8Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.generation.progress import TokenReceived
    from meshnet.vocab import Vocabulary


@dataclass(frozen=True, slots=True)
class _WaitingToken:
    """A token that waits until its text, characters `[begin, end)` of the answer, is released."""

    token: GeneratedToken
    begin: int
    end: int


class AnswerText:
    """Builds the text of one answer while its tokens come in. `tokens` is the number of tokens received so far."""

    def __init__(self, vocabulary: Vocabulary, stops: tuple[str, ...], *, with_tokens: bool) -> None:
        """Start with no text.

        Args:
            vocabulary: gives the bytes of each token.
            stops: strings that end the text and are not part of it.
            with_tokens: if true, each delta also carries the tokens whose text is released.
        """
        self.tokens = 0
        self._vocabulary = vocabulary
        self._utf8 = Utf8Decoder()
        self._stops = StopStrings(stops)
        self._with_tokens = with_tokens
        self._waiting: deque[_WaitingToken] = deque()
        self._decoded_length = 0
        self._released_length = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found. If so, nothing is held back, and no later token belongs to the answer."""
        return self._stops.matched is not None

    def take(self, token: TokenReceived) -> tuple[TextDelta, FinishReason | None]:
        """Take one token; return the text that may be sent now, and the reason if the answer ends with this token."""
        self.tokens += 1
        is_part_of_text = token.finish is not FinishReason.STOP and not self.is_stopped
        delta = self._push(token) if is_part_of_text else TextDelta("")
        return delta, FinishReason.STOP if self.is_stopped else token.finish

    def rest(self) -> TextDelta:
        """Return the text that is still held back. It is called after the last token has come."""
        if self.is_stopped:
            return TextDelta("")
        rest = self._utf8.finish()
        self._decoded_length += len(rest)
        text = self._stops.push(rest)
        return self._release(text if self.is_stopped else text + self._stops.finish(), is_last=not self.is_stopped)

    def _push(self, token: TokenReceived) -> TextDelta:
        text = self._utf8.push(self._vocabulary.piece(token.token_id))
        if self._with_tokens:
            begin = self._decoded_length
            # A character that the token begins is part of its text, though it is not decoded yet.
            end = begin + len(text) + self._utf8.is_pending
            self._waiting.append(_WaitingToken(self._generated(token), begin, end))
        self._decoded_length += len(text)
        return self._release(self._stops.push(text))

    def _generated(self, token: TokenReceived) -> GeneratedToken:
        piece = self._vocabulary.piece
        return GeneratedToken(
            token_id=token.token_id,
            piece=piece(token.token_id),
            logprob=token.logprob,
            alternatives=tuple(
                Alternative(token_id, piece(token_id), logprob) for token_id, logprob in token.top_logprobs
            ),
        )

    def _release(self, text: str, *, is_last: bool = False) -> TextDelta:
        self._released_length += len(text)
        return TextDelta(text, tuple(self._take_tokens(is_last=is_last)))

    def _take_tokens(self, *, is_last: bool) -> Iterator[PlacedToken]:
        while self._waiting and (is_last or self._is_released(self._waiting[0])):
            waiting = self._waiting.popleft()
            yield PlacedToken(waiting.token, waiting.begin)

    def _is_released(self, waiting: _WaitingToken) -> bool:
        """Return whether all of the token's text is released, or its beginning if a stop string was found."""
        if self.is_stopped:
            return waiting.begin < self._released_length
        return waiting.end <= self._released_length
