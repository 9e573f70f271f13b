"""Frozen types of the edge messages: everything except frames that travels on an edge.

Invariant: a message read by `meshnet.frame.edge_codec` obeys the limits below. `meshnet.session` and
`meshnet.token_window` check that it fits its session.
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
    """One generated token. The tail sends it to the Gateway.

    Attributes:
        index: number of the token in the whole generation, from 0.
        finish: set on the last token.
        logprob: natural-log probability of the token; None if it was not asked for.
        residence: how long stages kept the row of this token's step.
    """

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
    """Says how many prompt positions the tail has computed (`done`), and how long stages kept the latest chunk."""

    done: int
    residence: tuple[StageResidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Ack:
    """Says that all frames up to this `seq`, or all token events up to this index, have been consumed."""

    seq: int


@dataclass(frozen=True, slots=True)
class SessionGone:
    """Answers a frame if its session is unknown or closed, or if its epoch is older than the current one."""

    reason: str


@dataclass(frozen=True, slots=True)
class StageFailure:
    """Says that a stage has ended its session with an error.

    Attributes:
        message: explains the error to people; never holds prompt or completion text.
        stage: index of the stage at fault, which may be another one than the sender.
    """

    code: str
    message: str
    stage: int


@dataclass(frozen=True, slots=True)
class Close:
    """Asks the receiver to end the session. Sending it twice does no harm."""

    reason: str


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Tells the receiver that the session lives, so that its idle deadline starts again."""


EdgeBody: TypeAlias = TokenEvent | PrefillProgress | Ack | SessionGone | StageFailure | Close | Keepalive


@dataclass(frozen=True, slots=True)
class EdgeMessage:
    """A message, with its session and the edge that it is about.

    An `Ack` names the edge of the frames or tokens that it acknowledges, so it is sent by that edge's receiver.
    """

    session: bytes
    epoch: int
    from_stage: int
    to_stage: int
    body: EdgeBody

    @classmethod
    def on(cls, address: Address, body: EdgeBody) -> EdgeMessage:
        """Return a message with this body for a session and edge."""
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
