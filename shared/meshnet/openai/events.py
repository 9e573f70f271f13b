"""The events that a generation gives to its reader: pieces of text, telemetry, and its end.

Invariants: a stream has any number of `TextDelta` and `TelemetryUpdate` events, then exactly one `Finished` or
`Failed`. The texts of all deltas together are the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meshnet.errors import MeshnetError
    from meshnet.openai.telemetry import Telemetry


class FinishReason(StrEnum):
    """The reason why an answer ended, as the API spells it."""

    STOP = "stop"  # the model ended it, or a stop string was found
    LENGTH = "length"  # the limit of tokens or the context's end was reached


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the most probable tokens at a position of the answer, with its natural-log probability."""

    token_id: int
    piece: bytes = field(repr=False)
    logprob: float


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """One generated token: its bytes and, if they were asked for, its log probabilities."""

    token_id: int
    piece: bytes = field(repr=False)
    logprob: float | None = None
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedToken:
    """A generated token and its place in the answer: its text begins at character `text_offset`, from 0."""

    token: GeneratedToken
    text_offset: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text, and its tokens (none unless log probabilities were asked for)."""

    text: str = field(repr=False)
    tokens: tuple[PlacedToken, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.tokens)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one answer. `completion_tokens` includes the end-of-generation token."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Number of tokens in prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class TelemetryUpdate:
    """The state of a generation at one moment."""

    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete."""

    reason: FinishReason
    usage: Usage
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer remains incomplete; no more text follows the text that was sent."""

    error: MeshnetError
    usage: Usage
    telemetry: Telemetry


GenerationEvent = TextDelta | TelemetryUpdate | Finished | Failed
