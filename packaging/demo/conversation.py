"""Asks for one streamed chat completion and reads it with the official `openai` client."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import openai

from processes import DemoError

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk

REQUEST_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Stage:
    """One stage of the route, from the site's telemetry."""

    stage: int
    node: str
    layer_begin: int
    layer_end: int
    carrier: str
    seam_bytes_per_token: int
    seam_codec: str


@dataclass
class Answer:
    """The part of the answer that has arrived so far. Times are in seconds since the request was sent."""

    prompt: str
    text: str = ""
    phase: str = "queued"
    stages: tuple[Stage, ...] = ()
    prefill_done: int = 0
    prefill_total: int = 0
    tokens: int = 0
    tokens_per_s: float = 0.0
    finish_reason: str | None = None
    first_telemetry_s: float | None = None
    first_token_s: float | None = None
    elapsed_s: float = 0.0
    completion_tokens: int = 0
    started_at: float = field(default_factory=time.monotonic)

    @property
    def text_sha256(self) -> str:
        """SHA-256 of the text in UTF-8, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def take_telemetry(self, record: dict[str, Any]) -> None:
        """Take the fields of one telemetry object of the stream."""
        self.first_telemetry_s = self.first_telemetry_s or self.elapsed_s
        self.phase = record["phase"]
        self.prefill_done = record.get("prefill_done", 0)
        self.prefill_total = record.get("prefill_total", 0)
        self.tokens = record.get("generated_tokens", 0)
        self.tokens_per_s = record.get("tokens_per_s", 0.0)
        if record.get("stages"):
            names = Stage.__dataclass_fields__
            self.stages = tuple(Stage(**{name: row[name] for name in names}) for row in record["stages"])

    def take_chunk(self, chunk: ChatCompletionChunk) -> None:
        """Take the text, telemetry, token count and finish reason that a chunk of the stream holds."""
        self.elapsed_s = time.monotonic() - self.started_at
        if telemetry := (chunk.model_extra or {}).get("telemetry"):
            self.take_telemetry(telemetry)
        if chunk.usage is not None:
            self.completion_tokens = chunk.usage.completion_tokens
        for choice in chunk.choices:
            if choice.delta.content:
                self.first_token_s = self.first_token_s or self.elapsed_s
                self.text += choice.delta.content
            self.finish_reason = choice.finish_reason or self.finish_reason


def stream(base_url: str, api_key: str, model: str, prompt: str, max_tokens: int) -> Iterator[Answer]:
    """Send the prompt at temperature 0 and yield the growing answer after every chunk.

    Raises:
        DemoError: the site answered with an error, too late, or without a finish reason.
    """
    client = openai.OpenAI(base_url=base_url, api_key=api_key, timeout=REQUEST_TIMEOUT_S, max_retries=0)
    answer = Answer(prompt)
    try:
        chunks = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=max_tokens,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"stream_options": {"include_usage": True, "include_telemetry": True}},
        )
        for chunk in chunks:
            answer.take_chunk(chunk)
            yield answer
    except openai.OpenAIError as error:
        raise DemoError(f"the completion failed: {error}") from error
    if answer.finish_reason is None or answer.completion_tokens == 0:
        raise DemoError("the stream ended without a finish reason or without a token")
