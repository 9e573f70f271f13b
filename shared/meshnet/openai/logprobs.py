"""Turns log probabilities into the forms in which the chat and the completion endpoint send them.

Invariants: the field `bytes` has a token's exact bytes. If a token's bytes are not whole UTF-8 characters,
its text is the same as in OpenAI's API. A probability of zero is reported as -9999, since JSON has no infinities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.openai.objects import ChatLogprobs, CompletionLogprobs, TokenLogprob, TopLogprob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.openai.events import Alternative, PlacedToken

# The log probability that OpenAI's API reports for a token of probability zero.
LOGPROB_MIN: Final = -9999.0


def chat_logprobs(tokens: Sequence[PlacedToken]) -> ChatLogprobs:
    """Return the tokens' log probabilities as the chat endpoint sends them."""
    return ChatLogprobs(
        content=[
            TokenLogprob(
                token=_readable(placed.token.piece),
                logprob=_finite(placed.token.logprob),
                bytes=list(placed.token.piece),
                top_logprobs=[_top_logprob(alternative) for alternative in placed.token.alternatives],
            )
            for placed in tokens
        ],
        refusal=None,
    )


def completion_logprobs(tokens: Sequence[PlacedToken]) -> CompletionLogprobs:
    """Return the tokens' log probabilities as the text completion endpoint sends them."""
    return CompletionLogprobs(
        tokens=[_escaped(placed.token.piece) for placed in tokens],
        token_logprobs=[_finite(placed.token.logprob) for placed in tokens],
        top_logprobs=[
            {_escaped(alternative.piece): _finite(alternative.logprob) for alternative in placed.token.alternatives}
            for placed in tokens
        ],
        text_offset=[placed.text_offset for placed in tokens],
    )


def _top_logprob(alternative: Alternative) -> TopLogprob:
    return TopLogprob(
        token=_readable(alternative.piece), logprob=_finite(alternative.logprob), bytes=list(alternative.piece)
    )


def _finite(logprob: float | None) -> float:
    return LOGPROB_MIN if logprob is None else max(logprob, LOGPROB_MIN)


def _readable(piece: bytes) -> str:
    return piece.decode("utf-8", errors="replace")


def _escaped(piece: bytes) -> str:
    r"""Return a token's text, or `bytes:\xNN` if its bytes are not whole characters, so that keys stay distinct."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
