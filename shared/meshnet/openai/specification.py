"""A validated request as types of our own, which do not depend on the API's field names.

Invariant: every value is in a range that does not depend on the model. The limits of the requested model (its
vocabulary, its context) are checked later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Face(StrEnum):
    """The endpoint that a request was sent to; it decides the form of the answer."""

    CHAT = "chat"
    COMPLETION = "completion"


class Role(StrEnum):
    """The speaker of a message; the API's `developer` is `SYSTEM` here."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation."""

    role: Role
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation, to be rendered by the model's chat template."""

    messages: tuple[ChatMessage, ...]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Plain text, which the model continues without a template."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Token ids, which are not tokenised again."""

    token_ids: tuple[int, ...] = field(repr=False)


Prompt = ChatPrompt | TextPrompt | TokenPrompt


@dataclass(frozen=True, slots=True)
class SamplingSpec:
    """How the next token is drawn. Source: docs/wire.md, Sampling.

    Attributes:
        seed: seed of the sampler, 64 bits unsigned; if None, a random one is chosen later.
        top_k: most tokens to draw from; 0 means no limit.
        logit_bias: (token id, addend), by ascending id.
        top_logprobs: number of alternatives to report for each token, 0 to 20.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: bool = False
    top_logprobs: int = 0


@dataclass(frozen=True, slots=True)
class DeliverySpec:
    """How the answer is sent: streamed or whole, and with which additions to a stream."""

    stream: bool = False
    include_usage: bool = False
    include_telemetry: bool = False


@dataclass(frozen=True, slots=True)
class GenerationSpec:
    """One validated request.

    Attributes:
        model: name as the client spelt it.
        max_tokens: most tokens to generate; if None, a default is applied later.
        stop: strings that end the text and are not part of it.
    """

    face: Face
    model: str
    prompt: Prompt
    sampling: SamplingSpec
    max_tokens: int | None
    stop: tuple[str, ...]
    delivery: DeliverySpec
