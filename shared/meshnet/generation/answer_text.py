"""From a tail's tokens to text for the client.

Invariant: the tokens have been checked (`token_book`); here they are only turned into text, and stop strings are found.
Source: docs/wire.md, Finish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.openai.completion_text import CompletionText
from meshnet.openai.events import Alternative, FinishReason, GeneratedToken, TextDelta

if TYPE_CHECKING:
    from meshnet.generation.progress import TokenReceived
    from meshnet.vocab import Vocabulary


class AnswerText:
    """The text of one answer while its tokens come in. `tokens`: received so far."""

    def __init__(self, vocabulary: Vocabulary, stops: tuple[str, ...], *, with_tokens: bool) -> None:
        """Args: stops: strings that end the text and are not part of it; with_tokens: deltas carry their tokens."""
        self._vocabulary = vocabulary
        self._text = CompletionText(stops, with_tokens=with_tokens)
        self.tokens = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found: nothing is held back, and no later token belongs to the answer."""
        return self._text.is_stopped

    def take(self, token: TokenReceived) -> tuple[TextDelta, FinishReason | None]:
        """Take one token; return the text that is certain now, and why the answer ends where it does."""
        self.tokens += 1
        is_end = token.finish is FinishReason.STOP
        delta = TextDelta("") if is_end else self._text.push(self._generated(token))
        return delta, FinishReason.STOP if self.is_stopped else token.finish

    def rest(self) -> TextDelta:
        """Return what was held back: no more tokens come."""
        return self._text.finish()

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
