"""The body of `POST /v1/completions`.

Invariants: there is exactly one prompt, as text or as token ids. If a request has no `max_tokens`, it stays None
here; OpenAI's default of 16 is applied later.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from meshnet.openai.request_fields import (
    TOKEN_ID_MAX,
    TOP_LOGPROBS_MAX,
    FalseOnly,
    GenerationFields,
    OneOnly,
    Unsupported,
)
from meshnet.openai.specification import Face, GenerationSpec, TextPrompt, TokenPrompt

# Most tokens that OpenAI's API generates if the request names no limit.
MAX_TOKENS_DEFAULT: Final = 16


def parse_prompt(value: object) -> TextPrompt | TokenPrompt:
    """Read a prompt: a string, a list of token ids, or a list that holds exactly one of these.

    Raises:
        PydanticCustomError: the value has none of these forms, or holds more than one prompt.
    """
    if isinstance(value, str):
        return TextPrompt(value)
    if not isinstance(value, list) or not value:
        raise PydanticCustomError("invalid_type", "The prompt must be a string or a list of token ids.")
    if _are_token_ids(value):
        return TokenPrompt(tuple(value))
    if len(value) > 1:
        raise PydanticCustomError("unsupported_value", "Only one prompt for each request is supported.")
    if isinstance(value[0], str) or (isinstance(value[0], list) and value[0] and _are_token_ids(value[0])):
        return parse_prompt(value[0])
    raise PydanticCustomError("invalid_type", "The prompt must be a string or a list of token ids.")


def _are_token_ids(values: list[object]) -> bool:
    return all(type(value) is int and 0 <= value <= TOKEN_ID_MAX for value in values)


class CompletionRequest(GenerationFields):
    """Parameters of a text completion; `logprobs` is the number of alternatives reported for each token."""

    prompt: Annotated[TextPrompt | TokenPrompt, PlainValidator(parse_prompt)]
    logprobs: Annotated[int, Field(ge=0, le=TOP_LOGPROBS_MAX)] | None = None
    best_of: OneOnly = None
    echo: FalseOnly = None
    suffix: Unsupported = None

    def specification(self) -> GenerationSpec:
        """Return the request as a `GenerationSpec`, which is the same for both endpoints."""
        return GenerationSpec(
            face=Face.COMPLETION,
            model=self.model,
            prompt=self.prompt,
            sampling=self.sampling(logprobs=self.logprobs is not None, top_logprobs=self.logprobs or 0),
            max_tokens=self.max_tokens,
            stop=tuple(self.stop or ()),
            delivery=self.delivery(),
        )
