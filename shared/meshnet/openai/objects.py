"""The OpenAI API's response objects, field for field.

Invariants: a field is sent only if it was set, since clients treat `null` and an absent field differently. Every number
is finite. Fields are in the order of OpenAI's own answers.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from meshnet.openai.telemetry import Telemetry


class ResponsePart(BaseModel):
    """Base class of everything that is sent to a client."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def to_json(self) -> str:
        """Return one line of JSON with the fields that were set."""
        return self.model_dump_json(exclude_unset=True)


class PromptTokensDetails(ResponsePart):
    """How many of the prompt's tokens were cached or audio; both are always 0 here."""

    cached_tokens: int
    audio_tokens: int


class CompletionTokensDetails(ResponsePart):
    """How many of the completion's tokens were of a special kind; all are always 0 here."""

    reasoning_tokens: int
    audio_tokens: int
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class UsageObject(ResponsePart):
    """Token counts of one answer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class TopLogprob(ResponsePart):
    """One of the most probable tokens at a position of the answer."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(ResponsePart):
    """One token of the answer: `bytes` are its exact bytes, `token` is a readable form."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(ResponsePart):
    """Log probabilities of a chat choice."""

    content: list[TokenLogprob]
    refusal: None = None


class CompletionLogprobs(ResponsePart):
    """Log probabilities of a text choice: parallel lists with one entry for each token."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class ChatDelta(ResponsePart):
    """The text or role that a chunk adds to the message."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: None = None


class ChatChunkChoice(ResponsePart):
    """The only choice of a chunk of a chat completion."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: str | None


class AssistantMessage(ResponsePart):
    """The whole message of a chat completion."""

    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(ResponsePart):
    """The only choice of a chat completion that is not streamed."""

    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None
    finish_reason: str


class TextChoice(ResponsePart):
    """The only choice of a text completion, or of one of its chunks."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str | None


class ResponseObject(ResponsePart):
    """An answer, or one chunk of it. `choices` is empty if a chunk carries only usage or telemetry."""

    id: str
    object: str
    created: int
    model: str
    choices: list[ChatChunkChoice] | list[ChatChoice] | list[TextChoice]
    usage: UsageObject | None = None
    telemetry: Telemetry | None = None


class ModelObject(ResponsePart):
    """One model of the list. `context_length` is our own field, in tokens."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    context_length: int


class ModelList(ResponsePart):
    """The answer of `/v1/models`: the models that a request may name."""

    object: Literal["list"]
    data: list[ModelObject]
