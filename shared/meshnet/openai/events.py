"""What a generation tells its reader: pieces of text, telemetry, and how it ended.

Invariants: a stream of events is any number of `TextDelta` and `TelemetryUpdate`, then exactly one `Finished` or
`Failed`. The texts of all deltas joined are the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meshnet.errors import MeshnetError
    from meshnet.openai.telemetry import Telemetry


class FinishReason(StrEnum):
    """Why an answer ended, in the API's words."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that might have been drawn, with its natural-log probability."""

    token_id: int
    piece: bytes = field(repr=False)
    logprob: float


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """One generated token: its bytes and, where they were asked for, its log probabilities."""

    token_id: int
    piece: bytes = field(repr=False)
    logprob: float | None = None
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedToken:
    """A token whose text has been released, and the character offset at which it begins in the answer."""

    token: GeneratedToken
    text_offset: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text that is certain, and the tokens it came from (empty unless log probabilities were asked for)."""

    text: str = field(repr=False)
    tokens: tuple[PlacedToken, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.tokens)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that were counted by the gateway; `completion_tokens` includes the end-of-generation token."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
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
    """The answer stays incomplete; the text that was sent is all there is."""

    error: MeshnetError
    usage: Usage
    telemetry: Telemetry


GenerationEvent = TextDelta | TelemetryUpdate | Finished | Failed
