"""The body of `POST /v1/completions`.

Invariants: exactly one prompt, as text or as token ids. OpenAI's default of 16 tokens is the gateway's to apply.
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

# What OpenAI's API generates at most where the request names no limit.
MAX_TOKENS_DEFAULT: Final = 16


def parse_prompt(value: object) -> TextPrompt | TokenPrompt:
    """Read a prompt in any of the API's four forms; lists of prompts hold one.

    Raises:
        PydanticCustomError: the value is none of the forms, or holds more than one prompt.
    """
    if isinstance(value, str):
        return TextPrompt(value)
    if not isinstance(value, list) or not value:
        raise PydanticCustomError("invalid_type", "The prompt is a string or a list of token ids.")
    if _are_token_ids(value):
        return TokenPrompt(tuple(value))
    if len(value) > 1:
        raise PydanticCustomError("unsupported_value", "Only one prompt a request is supported.")
    if isinstance(value[0], str) or (isinstance(value[0], list) and value[0] and _are_token_ids(value[0])):
        return parse_prompt(value[0])
    raise PydanticCustomError("invalid_type", "The prompt is a string or a list of token ids.")


def _are_token_ids(values: list[object]) -> bool:
    return all(type(value) is int and 0 <= value <= TOKEN_ID_MAX for value in values)


class CompletionRequest(GenerationFields):
    """Parameters of a text completion; `logprobs` is the number of alternatives beside each token."""

    prompt: Annotated[TextPrompt | TokenPrompt, PlainValidator(parse_prompt)]
    logprobs: Annotated[int, Field(ge=0, le=TOP_LOGPROBS_MAX)] | None = None
    best_of: OneOnly = None
    echo: FalseOnly = None
    suffix: Unsupported = None

    def specification(self) -> GenerationSpec:
        """The request, free of the API's spelling."""
        return GenerationSpec(
            face=Face.COMPLETION,
            model=self.model,
            prompt=self.prompt,
            sampling=self.sampling(logprobs=self.logprobs is not None, top_logprobs=self.logprobs or 0),
            max_tokens=self.max_tokens,
            stop=tuple(self.stop or ()),
            delivery=self.delivery(),
        )
