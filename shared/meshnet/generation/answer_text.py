"""From a tail's tokens to text for the client.

Invariants: no token is believed that cannot be: indices are consecutive, ids are of the vocabulary, at most
`max_tokens` come, log probabilities are numbers. After the finish nothing is taken. Source: docs/wire.md, Finish.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.errors import ProtocolError
from meshnet.openai.completion_text import CompletionText
from meshnet.openai.events import Alternative, FinishReason, GeneratedToken, TextDelta

if TYPE_CHECKING:
    from meshnet.generation.progress import TokenReceived
    from meshnet.vocab import Vocabulary


@dataclass(frozen=True, slots=True)
class AnswerTerms:
    """What an answer may hold and how it is cut.

    Attributes:
        max_tokens: generated at most.
        stops: strings that end the text and are not part of it.
        with_tokens: deltas carry the tokens that they came from.
    """

    max_tokens: int
    stops: tuple[str, ...]
    with_tokens: bool


class AnswerText:
    """The text of one answer while its tokens come in. `tokens`: received so far."""

    def __init__(self, terms: AnswerTerms, vocabulary: Vocabulary) -> None:
        self._terms = terms
        self._vocabulary = vocabulary
        self._text = CompletionText(terms.stops, with_tokens=terms.with_tokens)
        self.tokens = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found: nothing is held back, and no later token belongs to the answer."""
        return self._text.is_stopped

    def take(self, token: TokenReceived) -> tuple[TextDelta, FinishReason | None]:
        """Take one token; return the text that is certain now, and why the answer ends where it does.

        Raises:
            ProtocolError: the tail sent what cannot be.
        """
        self._check(token)
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

    def _check(self, token: TokenReceived) -> None:
        if token.index != self.tokens:
            raise _impossible("sequence_gap", f"The tail sent token {token.index} where {self.tokens} was due.")
        if self.tokens >= self._terms.max_tokens:
            raise _impossible("wrong_position", f"The tail sent more than {self._terms.max_tokens} tokens.")
        ids = [token.token_id, *(token_id for token_id, _logprob in token.top_logprobs)]
        if not all(0 <= token_id < self._vocabulary.size for token_id in ids):
            raise _impossible("bad_token_id", "The tail sent a token id that is not of the vocabulary.")
        logprobs = [token.logprob or 0.0, *(logprob for _token_id, logprob in token.top_logprobs)]
        if any(math.isnan(logprob) or logprob == math.inf for logprob in logprobs):
            raise _impossible("not_finite", "The tail sent a log probability that is not a number.")


def _impossible(code: str, message: str) -> ProtocolError:
    return ProtocolError(code, "Impossible token", message)
