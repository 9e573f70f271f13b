"""Checks that a request fits its model: that its token ids are in the vocabulary, and its tokens in the context.

Invariant: pure. If a request passes, any route of the model can compute it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from meshnet.failure_codes import FailureCode
from meshnet.openai.completion_request import MAX_TOKENS_DEFAULT
from meshnet.openai.errors import RequestError
from meshnet.openai.specification import Face, TokenPrompt

if TYPE_CHECKING:
    from meshnet.openai.specification import GenerationSpec, SamplingSpec
    from meshnet.vocab import Vocabulary

# Most tokens that a chat may generate if it names no limit and the context has more room.
CHAT_TOKENS_DEFAULT: Final = 2048


@dataclass(frozen=True, slots=True)
class FittedRequest:
    """A tokenised request that fits its model.

    Attributes:
        max_tokens: most tokens to generate; the context has room for them and the prompt.
        sampling: sampling parameters, in which the seed is set.
    """

    prompt_tokens: tuple[int, ...] = field(repr=False)
    max_tokens: int
    sampling: SamplingSpec


def fit_request(
    spec: GenerationSpec,
    vocabulary: Vocabulary,
    prompt_tokens: tuple[int, ...],
    drawn_seed: int,
    *,
    max_tokens_default: int = CHAT_TOKENS_DEFAULT,
) -> FittedRequest:
    """Check a tokenised request against its model. If the request names no seed, it gets `drawn_seed`.

    Args:
        spec: the request.
        vocabulary: the model's vocabulary, which also knows the length of the context.
        prompt_tokens: token ids of the whole prompt.
        drawn_seed: a random seed.
        max_tokens_default: most tokens to generate for a chat that names no limit.

    Raises:
        RequestError: with status 400 if the prompt is empty, if prompt and `spec.max_tokens` are longer than the
            context, or if a token id is outside the vocabulary.
    """
    _check_token_ids(spec, vocabulary, prompt_tokens)
    max_tokens = _max_tokens(spec, vocabulary.context_length, len(prompt_tokens), max_tokens_default)
    sampling = spec.sampling if spec.sampling.seed is not None else replace(spec.sampling, seed=drawn_seed)
    return FittedRequest(prompt_tokens, max_tokens, sampling)


def _check_token_ids(spec: GenerationSpec, vocabulary: Vocabulary, prompt_tokens: tuple[int, ...]) -> None:
    if not prompt_tokens:
        raise RequestError("invalid_value", "The prompt is empty.", param="prompt")
    if isinstance(spec.prompt, TokenPrompt) and max(prompt_tokens) >= vocabulary.size:
        message = f"The prompt holds a token id outside this model's vocabulary of {vocabulary.size}."
        raise RequestError(FailureCode.BAD_TOKEN_ID, message, param="prompt")
    if any(token_id >= vocabulary.size for token_id, _bias in spec.sampling.logit_bias):
        message = f"'logit_bias' holds a token id outside this model's vocabulary of {vocabulary.size}."
        raise RequestError(FailureCode.BAD_TOKEN_ID, message, param="logit_bias")


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
