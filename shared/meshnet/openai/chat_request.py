"""The body of `POST /v1/chat/completions`.

Invariants: messages are text from the roles system (or developer), user and assistant. If a message has several text
parts, they are joined by newlines. Tools, images and audio are refused by name.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from meshnet.openai.request_fields import (
    TOP_LOGPROBS_MAX,
    FalseOnly,
    GenerationFields,
    Ignored,
    RequestPart,
    TextFormatOnly,
    TokenCount,
    ToolChoice,
    Unsupported,
)
from meshnet.openai.specification import ChatMessage, ChatPrompt, Face, GenerationSpec, Role

MESSAGES_MAX: Final = 4096

_ROLES: Final = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}


def _check_part_type(part_type: str) -> str:
    if part_type != "text":
        raise PydanticCustomError("unsupported_content", "Only content parts of type 'text' are supported.")
    return part_type


def _check_role(role: str) -> str:
    if role in ("tool", "function"):
        raise PydanticCustomError("unsupported_value", "Tools are not supported.")
    if role not in _ROLES:
        raise PydanticCustomError("invalid_value", "The role must be system, developer, user or assistant.")
    return role


def _as_parts(content: object) -> object:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _refuse_other_modalities(value: list[str] | None) -> list[str] | None:
    if value not in (None, ["text"]):
        raise PydanticCustomError("unsupported_value", "Only the modality 'text' is supported.")
    return value


class TextPart(RequestPart):
    """One part of a message's content; only text is accepted."""

    type: Annotated[str, AfterValidator(_check_part_type)]
    text: str


class MessageFields(RequestPart):
    """One message as the client sent it. `name` is accepted, but chat templates do not see it."""

    role: Annotated[str, AfterValidator(_check_role)]
    content: Annotated[list[TextPart], BeforeValidator(_as_parts), Field(min_length=1)]
    name: str | None = None
    tool_calls: Unsupported = None
    function_call: Unsupported = None
    refusal: Ignored = None
    audio: Unsupported = None
    annotations: Ignored = None

    def message(self) -> ChatMessage:
        """Return the message with its parts joined by newlines."""
        return ChatMessage(role=_ROLES[self.role], content="\n".join(part.text for part in self.content))


class ChatRequest(GenerationFields):
    """Parameters of a chat completion."""

    messages: Annotated[list[MessageFields], Field(min_length=1, max_length=MESSAGES_MAX)]
    max_completion_tokens: TokenCount | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=TOP_LOGPROBS_MAX)] | None = None
    modalities: Annotated[list[str] | None, AfterValidator(_refuse_other_modalities)] = None
    response_format: TextFormatOnly = None
    tools: Unsupported = None
    tool_choice: ToolChoice = None
    functions: Unsupported = None
    function_call: ToolChoice = None
    audio: Unsupported = None
    prediction: Unsupported = None
    web_search_options: Unsupported = None
    moderation: Unsupported = None
    parallel_tool_calls: Ignored = None
    reasoning_effort: Ignored = None
    verbosity: Ignored = None
    echo: FalseOnly = None

    @model_validator(mode="after")
    def _fields_agree(self) -> ChatRequest:
        if self.top_logprobs and not self.logprobs:
            message = "'top_logprobs' needs 'logprobs' to be true."
            raise PydanticCustomError("invalid_value", message, {"param": "top_logprobs"})
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            message = "'max_tokens' and 'max_completion_tokens' differ; send one of them."
            raise PydanticCustomError("invalid_value", message, {"param": "max_completion_tokens"})
        return self

    def specification(self) -> GenerationSpec:
        """Return the request as a `GenerationSpec`, which is the same for both endpoints."""
        return GenerationSpec(
            face=Face.CHAT,
            model=self.model,
            prompt=ChatPrompt(tuple(message.message() for message in self.messages)),
            sampling=self.sampling(logprobs=bool(self.logprobs), top_logprobs=self.top_logprobs or 0),
            max_tokens=self.max_completion_tokens or self.max_tokens,
            stop=tuple(self.stop or ()),
            delivery=self.delivery(),
        )
