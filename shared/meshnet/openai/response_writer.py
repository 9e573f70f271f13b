"""Turns the events of a generation into response objects, streamed or whole, for both endpoints.

Invariants: a stream has one opening chunk (chat only), chunks of text, one closing chunk with the finish reason and, if
it was asked for, the usage chunk. Every chunk carries the same id, time and model. With `include_usage`, every other
chunk has `usage: null`, as in OpenAI's API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from meshnet.openai.logprobs import chat_logprobs, completion_logprobs
from meshnet.openai.objects import (
    AssistantMessage,
    ChatChoice,
    ChatChunkChoice,
    ChatDelta,
    CompletionTokensDetails,
    PromptTokensDetails,
    ResponseObject,
    TextChoice,
    UsageObject,
)
from meshnet.openai.specification import Face

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.openai.events import Finished, PlacedToken, TextDelta, Usage
    from meshnet.openai.specification import GenerationSpec
    from meshnet.openai.telemetry import Telemetry

# Beginnings of the answers' ids, the same as OpenAI's.
ID_PREFIXES: Final = {Face.CHAT: "chatcmpl-", Face.COMPLETION: "cmpl-"}

Choices = list[ChatChunkChoice] | list[ChatChoice] | list[TextChoice]


@dataclass(frozen=True, slots=True)
class Heading:
    """The fields that all objects of one answer share. `created` is in Unix seconds."""

    id: str
    created: int
    model: str


def usage_object(usage: Usage) -> UsageObject:
    """Return token counts as the API sends them; the counts of cached and hidden tokens are always 0."""
    return UsageObject(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=0, audio_tokens=0),
        completion_tokens_details=CompletionTokensDetails(
            reasoning_tokens=0, audio_tokens=0, accepted_prediction_tokens=0, rejected_prediction_tokens=0
        ),
    )


class Shape(Protocol):
    """How one endpoint writes the `choices` of its chunks and answers."""

    chunk_object: str
    whole_object: str

    def opening(self) -> Choices | None:
        """Return the choices of the opening chunk, or None if the endpoint has no such chunk."""

    def delta(self, text: str, tokens: Sequence[PlacedToken] | None) -> Choices:
        """Return the choices of a chunk of text; `tokens` is None if log probabilities were not asked for."""

    def closing(self, reason: str) -> Choices:
        """Return the choices of the closing chunk."""

    def whole(self, text: str, tokens: Sequence[PlacedToken] | None, reason: str) -> Choices:
        """Return the choices of an answer that is not streamed."""


class ChatShape:
    """The choices of `/v1/chat/completions`."""

    chunk_object = "chat.completion.chunk"
    whole_object = "chat.completion"

    def opening(self) -> Choices | None:
        """Return a choice with the role `assistant` and empty content."""
        delta = ChatDelta(role="assistant", content="", refusal=None)
        return [ChatChunkChoice(index=0, delta=delta, logprobs=None, finish_reason=None)]

    def delta(self, text: str, tokens: Sequence[PlacedToken] | None) -> Choices:
        """Return a choice with one piece of content."""
        logprobs = None if tokens is None else chat_logprobs(tokens)
        return [ChatChunkChoice(index=0, delta=ChatDelta(content=text), logprobs=logprobs, finish_reason=None)]

    def closing(self, reason: str) -> Choices:
        """Return a choice with an empty delta and the finish reason."""
        return [ChatChunkChoice(index=0, delta=ChatDelta(), logprobs=None, finish_reason=reason)]

    def whole(self, text: str, tokens: Sequence[PlacedToken] | None, reason: str) -> Choices:
        """Return a choice with the whole message."""
        message = AssistantMessage(role="assistant", content=text, refusal=None)
        logprobs = None if tokens is None else chat_logprobs(tokens)
        return [ChatChoice(index=0, message=message, logprobs=logprobs, finish_reason=reason)]


class TextShape:
    """The choices of `/v1/completions`."""

    chunk_object = "text_completion"
    whole_object = "text_completion"

    def opening(self) -> Choices | None:
        """Return None, since a text stream has no opening chunk."""
        return None

    def delta(self, text: str, tokens: Sequence[PlacedToken] | None) -> Choices:
        """Return a choice with one piece of text."""
        return [_text_choice(text, tokens, None)]

    def closing(self, reason: str) -> Choices:
        """Return a choice with an empty text and the finish reason."""
        return [_text_choice("", None, reason)]

    def whole(self, text: str, tokens: Sequence[PlacedToken] | None, reason: str) -> Choices:
        """Return a choice with the whole text."""
        return [_text_choice(text, tokens, reason)]


def _text_choice(text: str, tokens: Sequence[PlacedToken] | None, reason: str | None) -> TextChoice:
    logprobs = None if tokens is None else completion_logprobs(tokens)
    return TextChoice(index=0, text=text, logprobs=logprobs, finish_reason=reason)


_SHAPES: dict[Face, Shape] = {Face.CHAT: ChatShape(), Face.COMPLETION: TextShape()}


class ResponseWriter:
    """Writes the response objects of one answer."""

    def __init__(self, heading: Heading, spec: GenerationSpec) -> None:
        self._heading = heading
        self._shape = _SHAPES[spec.face]
        self._with_logprobs = spec.sampling.logprobs
        self._include_usage = spec.delivery.include_usage

    def opening(self) -> list[ResponseObject]:
        """Return the chunks that come before any text; none if the endpoint has no opening chunk."""
        choices = self._shape.opening()
        return [] if choices is None else [self._chunk(choices)]

    def delta(self, delta: TextDelta) -> ResponseObject:
        """Return a chunk of text."""
        return self._chunk(self._shape.delta(delta.text, delta.tokens if self._with_logprobs else None))

    def telemetry(self, telemetry: Telemetry) -> ResponseObject:
        """Return a chunk with telemetry alone, for clients that asked for `include_telemetry`."""
        heading = self._heading
        return ResponseObject(
            id=heading.id, object=self._shape.chunk_object, created=heading.created, model=heading.model, choices=[],
            telemetry=telemetry,
        )  # fmt: skip

    def closing(self, finished: Finished) -> list[ResponseObject]:
        """Return the chunks that come after the last text."""
        closing = self._chunk(self._shape.closing(finished.reason))
        if not self._include_usage:
            return [closing]
        heading = self._heading
        usage = ResponseObject(
            id=heading.id, object=self._shape.chunk_object, created=heading.created, model=heading.model, choices=[],
            usage=usage_object(finished.usage),
        )  # fmt: skip
        return [closing, usage]

    def whole(self, deltas: Sequence[TextDelta], finished: Finished) -> ResponseObject:
        """Return the whole answer as one object."""
        tokens = [token for delta in deltas for token in delta.tokens] if self._with_logprobs else None
        text = "".join(delta.text for delta in deltas)
        return ResponseObject(
            id=self._heading.id,
            object=self._shape.whole_object,
            created=self._heading.created,
            model=self._heading.model,
            choices=self._shape.whole(text, tokens, finished.reason),
            usage=usage_object(finished.usage),
            telemetry=finished.telemetry,
        )

    def _chunk(self, choices: Choices) -> ResponseObject:
        heading, name = self._heading, self._shape.chunk_object
        chunk = ResponseObject(
            id=heading.id, object=name, created=heading.created, model=heading.model, choices=choices
        )
        return chunk.model_copy(update={"usage": None}) if self._include_usage else chunk
