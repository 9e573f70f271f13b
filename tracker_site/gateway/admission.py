"""Checks that a request fits its model, and computes the request for a route and the amount of the hold.

Invariant: this module is pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meshnet.generation.fitting import fit_request
from tracker_site.billing.pricing import hold_micros
from tracker_site.routes.planning.request import RouteRequest

if TYPE_CHECKING:
    from meshnet.openai.specification import GenerationSpec
    from meshnet.vocab import Vocabulary
    from tracker_site.gateway.ports import ServedModel


@dataclass(frozen=True, slots=True)
class Admission:
    """An accepted request.

    Attributes:
        request: the request for a route.
        hold_micros: the most that the request can cost, in micro-credits.
    """

    model: ServedModel
    request: RouteRequest
    vocabulary: Vocabulary = field(repr=False)
    hold_micros: int


def admit(
    spec: GenerationSpec, model: ServedModel, vocabulary: Vocabulary, prompt_tokens: tuple[int, ...], drawn_seed: int,
    *, max_tokens_default: int,
) -> Admission:  # fmt: skip
    """Check a tokenised request against its model, and compute its request for a route and its hold.

    If the request names no seed, it gets `drawn_seed`. If a chat names no limit, its answer has at most
    `max_tokens_default` tokens, or fewer if the context has less room.

    Raises:
        RequestError: status 400: the prompt is empty, the context has no room for prompt and answer, or a token id is
            not in the vocabulary.
    """
    fitted = fit_request(spec, vocabulary, prompt_tokens, drawn_seed, max_tokens_default=max_tokens_default)
    request = RouteRequest(
        artifact_digest=model.artifact_digest,
        n_layers=model.n_layers,
        prompt_tokens=fitted.prompt_tokens,
        max_tokens=fitted.max_tokens,
        sampling=fitted.sampling,
        end_tokens=vocabulary.end_tokens,
        vocabulary_size=vocabulary.size,
        coarsest_codec=model.coarsest_codec,
        legal_cuts=model.legal_cuts,
        allows_mixed_recipes=model.allows_mixed_recipes,
    )
    amount_micros = hold_micros(model.prices, prompt_tokens=len(prompt_tokens), max_tokens=fitted.max_tokens)
    return Admission(model, request, vocabulary, amount_micros)
