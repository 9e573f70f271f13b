"""Draws a token from one row of logits, on the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.frame import TokenEvent
from meshnet.sampling import log_probability, sample, top_log_probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from node_app.reference_worker.sessions.session import StageSession


def draw(session: StageSession, logits: Sequence[float], position: int) -> TokenEvent:
    """Draw the token for `position` from one row of logits. The event's index is 0; the `TokenSender` sets it later.

    Raises:
        ValueError: a logit is not finite.
    """
    terms = session.terms.sampling
    token_id = sample(logits, terms, session.counts, position)
    return TokenEvent(
        index=0,
        token_id=token_id,
        position=position,
        choice=terms.choice,
        logprob=log_probability(logits, token_id) if terms.logprobs else None,
        top_logprobs=top_log_probabilities(logits, terms.top_logprobs) if terms.logprobs else (),
    )
