"""Frozen types of the edge messages: everything except frames that travels on an edge.

Invariant: a value read by `meshnet.frame.edge_codec` obeys the limits below. `meshnet.session` and
`meshnet.token_window` decide if it fits its session.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from meshnet.ids import Address, Edge, SessionKey

if TYPE_CHECKING:
    from meshnet.frame.frames import StageResidence

# `reason` and `message` are for people. If one is longer than this, the sender cuts it and a receiver refuses it.
MAX_TEXT_BYTES: Final = 512
# Every failure code on the wire matches this.
CODE_PATTERN: Final = re.compile(r"[a-z0-9_]{1,64}")
# Source: the OpenAI API's limit for top_logprobs.
MAX_TOP_LOGPROBS: Final = 20


class FinishReason(IntEnum):
    """The reason why the tail ended the generation."""

    STOP = 1  # the token ends the generation
    LENGTH = 2  # the limit of tokens or the context's end was reached


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """An alternative token and its natural-log probability, before top_k, top_p and min_p are applied."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One committed token, sent by the tail to the Gateway; `index` counts from 0 over the whole generation."""

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
    """Number of prompt positions that the sending stage has computed."""

    done: int
    residence: tuple[StageResidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Ack:
    """The receiver has consumed everything up to `seq`, inclusive: a frame's `seq`, or a token event's index."""

    seq: int


@dataclass(frozen=True, slots=True)
class SessionGone:
    """The answer to a frame if its session is unknown or closed, or if its epoch is older than the current one."""

    reason: str


@dataclass(frozen=True, slots=True)
class StageFailure:
    """A stage gave up its session. `stage` is the one at fault; `message` never holds prompt or completion text."""

    code: str
    message: str
    stage: int


@dataclass(frozen=True, slots=True)
class Close:
    """Ends a session. Sending it twice does no harm."""

    reason: str


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Tells the receiver that the session lives, so that its idle deadline starts again."""


EdgeBody: TypeAlias = TokenEvent | PrefillProgress | Ack | SessionGone | StageFailure | Close | Keepalive


@dataclass(frozen=True, slots=True)
class EdgeMessage:
    """A body and the edge that it is about; an Ack names the edge of the frames that it acknowledges."""

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
        """The session and its epoch."""
        return SessionKey(self.session, self.epoch)

    @property
    def edge(self) -> Edge:
        """The edge that the body is about."""
        return Edge(self.from_stage, self.to_stage)

    @property
    def address(self) -> Address:
        """The session, its epoch and the edge."""
        return Address(self.key, self.edge)
