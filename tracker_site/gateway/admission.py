"""Whether a request fits its model: the checks that need the vocabulary and the prompt's length.

Invariant: pure. What passes here can be computed by any route of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from meshnet.openai.completion_request import MAX_TOKENS_DEFAULT
from meshnet.openai.errors import RequestError
from meshnet.openai.specification import Face, TokenPrompt
from tracker_site.billing.pricing import hold_micros
from tracker_site.routes.request import RouteRequest

if TYPE_CHECKING:
    from meshnet.openai.specification import GenerationSpec
    from meshnet.vocab import Vocabulary
    from tracker_site.gateway.ports import ServedModel


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that fits: what the route computes, and the most that it can cost."""

    model: ServedModel
    request: RouteRequest
    vocabulary: Vocabulary = field(repr=False)
    hold_micros: int


def admit(
    spec: GenerationSpec, model: ServedModel, vocabulary: Vocabulary, prompt_tokens: tuple[int, ...], drawn_seed: int,
    *, max_tokens_default: int,
) -> Admission:  # fmt: skip
    """Check a tokenised request against its model.

    Raises:
        RequestError: 400; the prompt is empty or too long, or an id is not of the vocabulary.
    """
    _check_token_ids(spec, vocabulary, prompt_tokens)
    max_tokens = _max_tokens(spec, vocabulary.context_length, len(prompt_tokens), max_tokens_default)
    sampling = spec.sampling if spec.sampling.seed is not None else replace(spec.sampling, seed=drawn_seed)
    request = RouteRequest(
        artifact_digest=model.artifact_digest,
        n_layers=model.n_layers,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        sampling=sampling,
        end_tokens=vocabulary.end_tokens,
        vocabulary_size=vocabulary.size,
    )
    amount_micros = hold_micros(model.prices, prompt_tokens=len(prompt_tokens), max_tokens=max_tokens)
    return Admission(model, request, vocabulary, amount_micros)


def _check_token_ids(spec: GenerationSpec, vocabulary: Vocabulary, prompt_tokens: tuple[int, ...]) -> None:
    if not prompt_tokens:
        raise RequestError("invalid_value", "The prompt is empty.", param="prompt")
    if isinstance(spec.prompt, TokenPrompt) and max(prompt_tokens) >= vocabulary.size:
        message = f"The prompt holds a token id that is not of this model's {vocabulary.size}."
        raise RequestError("bad_token_id", message, param="prompt")
    if any(token_id >= vocabulary.size for token_id, _bias in spec.sampling.logit_bias):
        message = f"'logit_bias' holds a token id that is not of this model's {vocabulary.size}."
        raise RequestError("bad_token_id", message, param="logit_bias")


def _max_tokens(spec: GenerationSpec, context_length: int, prompt_tokens: int, default: int) -> int:
    room = context_length - prompt_tokens
    if room < 1:
        message = f"This model's context has {context_length} tokens; the prompt alone has {prompt_tokens}."
        raise RequestError("context_length_exceeded", message, param=_prompt_parameter(spec))
    if spec.max_tokens is None:
        return min(room, MAX_TOKENS_DEFAULT if spec.face is Face.COMPLETION else default)
    if spec.max_tokens > room:
        message = (
            f"This model's context has {context_length} tokens; {prompt_tokens + spec.max_tokens} were asked for "
            f"({prompt_tokens} in the prompt, {spec.max_tokens} for the completion)."
        )
        raise RequestError("context_length_exceeded", message, param="max_tokens")
    return spec.max_tokens


def _prompt_parameter(spec: GenerationSpec) -> str:
    return "messages" if spec.face is Face.CHAT else "prompt"
