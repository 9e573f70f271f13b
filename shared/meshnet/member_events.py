"""The states, inputs and events of a relay member, and the table of its action for each input in each state.

Invariant: the table has an action for every pair of state and input; in `CLOSED`, all inputs are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final, TypeAlias

from meshnet.failure_codes import FailureCode

if TYPE_CHECKING:
    from meshnet.ids import SessionKey
    from meshnet.packets import Packet


class MemberState(Enum):
    """The state of a member's connection to the relay."""

    AWAITING_CHALLENGE = auto()
    AWAITING_WELCOME = auto()  # the proof was sent
    READY = auto()  # bindings and packets may be sent
    CLOSED = auto()


class Input(Enum):
    """The kinds of message from the relay, named like their protobuf bodies; `DISMISSAL` is a fatal refusal."""

    CHALLENGE = "challenge"
    WELCOME = "welcome"
    BOUND = "bound"
    REFUSAL = "refusal"
    DISMISSAL = "dismissal"
    LOST = "lost"
    PACKETS = "packets"


class Action(Enum):
    """The reaction of `RelayMember` to an input."""

    PROVE = auto()  # answer the challenge
    OPEN = auto()  # the connection is ready
    CONFIRM = auto()  # a binding stands
    REFUSE = auto()  # a binding, a packet or a session was refused
    DISMISS = auto()  # the relay gives up this connection
    LOSE = auto()  # another member is lost
    DELIVER = auto()  # packets came
    REJECT = auto()  # the message is out of turn, so the connection closes
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
    """A member's part in a session: it takes part as this stage, or as the Gateway (stage 127)."""

    key: SessionKey
    stage: int


class RelayCode(StrEnum):
    """Codes of refusals that only a relay gives. Its other refusals have a `FailureCode` or a `TicketCode`."""

    BAD_PROOF = "bad_proof"
    PROOF_OVERDUE = "proof_overdue"
    RELAY_FULL = "relay_full"
    MEMBER_FULL = "member_full"
    BYTES_EXCEEDED = "bytes_exceeded"
    RATE_EXCEEDED = "rate_exceeded"
    TOO_SLOW = "too_slow"
    REBOUND = "rebound"


# If a refusal has one of these codes, the relay has ended the session for all of its members.
SESSION_ENDING_CODES: Final = frozenset(
    {
        FailureCode.WINDOW_EXCEEDED,
        FailureCode.UNKNOWN_SESSION,
        RelayCode.BYTES_EXCEEDED,
        RelayCode.RATE_EXCEEDED,
        RelayCode.REBOUND,
    }
)


@dataclass(frozen=True, slots=True)
class Ready:
    """The relay has accepted the proof of the key, so bindings may be asked for.

    Attributes:
        message_max_bytes: size of the largest message to the relay.
        keepalive_ms: time between the relay's pings.
    """

    relay_id: str
    message_max_bytes: int
    keepalive_ms: int


@dataclass(frozen=True, slots=True)
class Bound:
    """The relay confirmed a binding; packets can be sent and received for it from now on."""

    binding: Binding


@dataclass(frozen=True, slots=True)
class BindRefused:
    """The relay refused to bind the member, so this binding does not exist any more."""

    binding: Binding
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class PacketRefused:
    """The relay dropped a packet; the binding stands. Code `stage_lost`: no member is bound as `to_stage`."""

    key: SessionKey
    to_stage: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The relay ended a whole session, with this member's bindings in it; `stage` is the member at fault."""

    key: SessionKey
    stage: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class StageLost:
    """Another member of the session, bound as `stage`, lost its connection to the relay."""

    key: SessionKey
    stage: int


@dataclass(frozen=True, slots=True)
class PacketsReceived:
    """Packets for this member's bindings, in order."""

    packets: tuple[Packet, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection to the relay cannot be used any more, and all bindings are gone."""

    code: str
    message: str


MemberEvent: TypeAlias = (
    Ready | Bound | BindRefused | PacketRefused | SessionEnded | StageLost | PacketsReceived | Closed
)
