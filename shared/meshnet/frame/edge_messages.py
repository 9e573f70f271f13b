"""Frozen types of everything but frames that travels on an edge.

Invariant: a value read by `meshnet.frame.edge_codec` obeys the limits below; whether it fits a session is decided by
`meshnet.session` and `meshnet.token_window`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from meshnet.ids import Address, Edge, SessionKey

if TYPE_CHECKING:
    from meshnet.frame.frames import StageResidence

# `reason` and `message` are for people; longer ones are cut by the sender and refused by the receiver.
MAX_TEXT_BYTES: Final = 512
# Failure codes, wherever they travel.
CODE_PATTERN: Final = re.compile(r"[a-z0-9_]{1,64}")
# Source: the OpenAI API's limit for top_logprobs.
MAX_TOP_LOGPROBS: Final = 20


class FinishReason(IntEnum):
    """Why the tail ended the generation."""

    STOP = 1
    LENGTH = 2


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One alternative and its natural-log probability, before truncation."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One committed token, tail -> Gateway; `index` is consecutive from 0 over the whole generation."""

    index: int
    token_id: int
    position: int
    finish: FinishReason | None = None
    choice: int = 0
    logprob: float | None = None
    top_logprobs: tuple[TokenLogprob, ...] = ()
    residence: tuple[StageResidence, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """Prompt positions computed by the stage that sends it."""

    done: int
    residence: tuple[StageResidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Ack:
    """Everything on the edge up to `seq` (frames) or index (token events) was consumed, inclusive."""

    seq: int


@dataclass(frozen=True, slots=True)
class SessionGone:
    """Answer to a frame for an unknown, closed or older session."""

    reason: str


@dataclass(frozen=True, slots=True)
class StageFailure:
    """Why a stage gave up; `stage` is the one at fault. `message` never holds prompt or completion text."""

    code: str
    message: str
    stage: int


@dataclass(frozen=True, slots=True)
class Close:
    """Ends a session; idempotent."""

    reason: str


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Resets the receiver's idle clock."""


EdgeBody: TypeAlias = TokenEvent | PrefillProgress | Ack | SessionGone | StageFailure | Close | Keepalive


@dataclass(frozen=True, slots=True)
class EdgeMessage:
    """A body and the edge it travels on (an Ack names the edge of the frames it acknowledges)."""

    session: bytes
    epoch: int
    from_stage: int
    to_stage: int
    body: EdgeBody

    @classmethod
    def on(cls, address: Address, body: EdgeBody) -> EdgeMessage:
        """Build a message for an address."""
        return cls(address.key.session, address.key.epoch, address.edge.from_stage, address.edge.to_stage, body)

    @property
    def key(self) -> SessionKey:
        """Session and epoch."""
        return SessionKey(self.session, self.epoch)

    @property
    def edge(self) -> Edge:
        """The edge that the body is about."""
        return Edge(self.from_stage, self.to_stage)

    @property
    def address(self) -> Address:
        """Session, epoch and edge."""
        return Address(self.key, self.edge)
