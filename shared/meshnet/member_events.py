"""A relay member's states, inputs and events, and what is done with each input in each state.

Invariant: every state x input has a cell; `CLOSED` ignores all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from meshnet.ids import SessionKey
    from meshnet.packets import Packet


class MemberState(Enum):
    """Where a member's connection stands."""

    AWAITING_CHALLENGE = auto()
    AWAITING_WELCOME = auto()
    READY = auto()
    CLOSED = auto()


class Input(Enum):
    """Messages of the relay, by the name of their body; a fatal refusal is a dismissal."""

    CHALLENGE = "challenge"
    WELCOME = "welcome"
    BOUND = "bound"
    REFUSAL = "refusal"
    DISMISSAL = "dismissal"
    LOST = "lost"
    PACKETS = "packets"


class Action(Enum):
    """What is done with an input."""

    PROVE = auto()
    OPEN = auto()
    CONFIRM = auto()
    REFUSE = auto()
    DISMISS = auto()
    LOSE = auto()
    DELIVER = auto()
    REJECT = auto()  # out of turn: the connection closes
    IGNORE = auto()


_S, _I, _A = MemberState, Input, Action
TRANSITIONS: Final[dict[tuple[MemberState, Input], Action]] = {
    **{(state, one): _A.REJECT for state in MemberState for one in Input},
    **{(_S.CLOSED, one): _A.IGNORE for one in Input},
    (_S.AWAITING_CHALLENGE, _I.CHALLENGE): _A.PROVE,
    (_S.AWAITING_CHALLENGE, _I.DISMISSAL): _A.DISMISS,
    (_S.AWAITING_WELCOME, _I.WELCOME): _A.OPEN,
    (_S.AWAITING_WELCOME, _I.DISMISSAL): _A.DISMISS,
    (_S.READY, _I.BOUND): _A.CONFIRM,
    (_S.READY, _I.REFUSAL): _A.REFUSE,
    (_S.READY, _I.DISMISSAL): _A.DISMISS,
    (_S.READY, _I.LOST): _A.LOSE,
    (_S.READY, _I.PACKETS): _A.DELIVER,
}


@dataclass(frozen=True, slots=True)
class Binding:
    """A member's place in one session."""

    key: SessionKey
    stage: int


class RelayCode(StrEnum):
    """Refusals that only a relay gives; packets and sessions also use `FailureCode`, binds `TicketCode`."""

    BAD_PROOF = "bad_proof"
    PROOF_OVERDUE = "proof_overdue"
    RELAY_FULL = "relay_full"
    MEMBER_FULL = "member_full"
    BYTES_EXCEEDED = "bytes_exceeded"
    RATE_EXCEEDED = "rate_exceeded"
    TOO_SLOW = "too_slow"
    REBOUND = "rebound"


# Refusals after which a bound session is over at the relay for all of its members.
SESSION_ENDING_CODES: Final = frozenset(
    {"window_exceeded", "unknown_session", "bytes_exceeded", "rate_exceeded", "rebound"}
)


@dataclass(frozen=True, slots=True)
class Ready:
    """The relay has accepted the proof; bindings may be asked for."""

    relay_id: str
    message_max_bytes: int
    keepalive_ms: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A binding stands; packets may be sent and will come."""

    binding: Binding


@dataclass(frozen=True, slots=True)
class BindRefused:
    """A binding will not stand."""

    binding: Binding
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class PacketRefused:
    """A packet to `to_stage` was dropped; the binding stands. `stage_lost`: that member is not there."""

    key: SessionKey
    to_stage: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The relay gave up a whole session; `stage` is the member at fault. Its bindings here are gone."""

    key: SessionKey
    stage: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class StageLost:
    """Another member's connection is gone."""

    key: SessionKey
    stage: int


@dataclass(frozen=True, slots=True)
class PacketsReceived:
    """Packets for bindings of this member, in order."""

    packets: tuple[Packet, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection is of no more use; all bindings are gone."""

    code: str
    message: str


MemberEvent: TypeAlias = (
    Ready | Bound | BindRefused | PacketRefused | SessionEnded | StageLost | PacketsReceived | Closed
)
