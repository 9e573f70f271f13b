"""What a validated request asks for, free of the API's spelling.

Invariant: every value here has been range-checked against what any model can do; limits that depend on one model (its
vocabulary, its context) are the gateway's to check.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Face(StrEnum):
    """Which endpoint was asked, and so the shape of the answer."""

    CHAT = "chat"
    COMPLETION = "completion"


class Role(StrEnum):
    """Who speaks; `developer` of the API is `SYSTEM` here."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation."""

    role: Role
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation, to be rendered by the model's chat template."""

    messages: tuple[ChatMessage, ...]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Plain text, continued as it stands."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Token ids, taken as they are."""

    token_ids: tuple[int, ...] = field(repr=False)


Prompt = ChatPrompt | TextPrompt | TokenPrompt


@dataclass(frozen=True, slots=True)
class SamplingSpec:
    """How the next token is drawn. Source: docs/wire.md, Sampling.

    Attributes:
        seed: of the draw, 64 bits unsigned; None: the gateway draws one.
        top_k: 0: off.
        logit_bias: (token id, addend) by ascending id.
        top_logprobs: alternatives to report beside each token, 0 to 20.
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
    """How the answer is sent."""

    stream: bool = False
    include_usage: bool = False
    include_telemetry: bool = False


@dataclass(frozen=True, slots=True)
class GenerationSpec:
    """One request, validated.

    Attributes:
        model: name as the client spelt it.
        max_tokens: generated at most; None: as many as fit.
        stop: strings that end the text and are not part of it.
    """

    face: Face
    model: str
    prompt: Prompt
    sampling: SamplingSpec
    max_tokens: int | None
    stop: tuple[str, ...]
    delivery: DeliverySpec
