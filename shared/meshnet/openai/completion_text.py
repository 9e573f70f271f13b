"""From tokens to the text that may be sent: bytes to characters, stop strings, and which tokens belong to which text.

Invariants: a token is released with the text that completes it, or, where it has no text of its own, with the text
around it; tokens that lie behind a stop string are never released. The text does not depend on how it was tokenised.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.openai.events import GeneratedToken, PlacedToken, TextDelta
from meshnet.openai.stop_strings import StopStrings
from meshnet.openai.utf8 import Utf8Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class _WaitingToken:
    token: GeneratedToken
    begin: int
    end: int


class CompletionText:
    """The text of one answer while its tokens come in."""

    def __init__(self, stops: tuple[str, ...], *, with_tokens: bool) -> None:
        self._utf8 = Utf8Decoder()
        self._stops = StopStrings(stops)
        self._with_tokens = with_tokens
        self._waiting: deque[_WaitingToken] = deque()
        self._decoded_length = 0
        self._released_length = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found: no later token belongs to the answer."""
        return self._stops.matched is not None

    def push(self, token: GeneratedToken) -> TextDelta:
        """Take one token; return the text and tokens that are certain now. After a stop string nothing is."""
        if self.is_stopped:
            return TextDelta("")
        text = self._utf8.push(token.piece)
        if self._with_tokens:
            begin = self._decoded_length
            # The character it begins is part of its text, though not yet decoded.
            self._waiting.append(_WaitingToken(token, begin, begin + len(text) + self._utf8.is_pending))
        self._decoded_length += len(text)
        return self._release(self._stops.push(text))

    def finish(self) -> TextDelta:
        """Return what was held back: no more tokens come."""
        if self.is_stopped:
            return TextDelta("")
        rest = self._utf8.finish()
        self._decoded_length += len(rest)
        text = self._stops.push(rest)
        return self._release(text if self.is_stopped else text + self._stops.finish(), is_last=not self.is_stopped)

    def _release(self, text: str, *, is_last: bool = False) -> TextDelta:
        self._released_length += len(text)
        return TextDelta(text, tuple(self._take_tokens(is_last=is_last)))

    def _take_tokens(self, *, is_last: bool) -> Iterator[PlacedToken]:
        while self._waiting and (is_last or self._is_released(self._waiting[0])):
            waiting = self._waiting.popleft()
            yield PlacedToken(waiting.token, waiting.begin)

    def _is_released(self, waiting: _WaitingToken) -> bool:
        """Wholly, while text goes on; at least in part, once a stop string has cut it."""
        if self.is_stopped:
            return waiting.begin < self._released_length
        return waiting.end <= self._released_length
