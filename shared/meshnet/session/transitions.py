"""The table of how the receiving end of an edge reacts to each kind of arrival in each of its states.

Invariant: the table has an entry for every pair of state and arrival. A closed end delivers nothing and fails nothing.
Source: docs/wire.md, Frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from meshnet.failure_codes import FailureCode


class ReceivingState(Enum):
    """The state of a receiving end of an edge."""

    EXPECTING = auto()  # no part of a frame is held
    ASSEMBLING = auto()  # some parts of a frame are held
    CLOSED = auto()


class Arrival(Enum):
    """The kinds of frame that a receiving end tells apart, in the order in which it checks for them."""

    UNKNOWN_SESSION = auto()
    OLD_EPOCH = auto()
    FOREIGN_EDGE = auto()  # its sender may not use that edge here
    REPEAT = auto()
    GAP = auto()  # an earlier frame or part is missing
    TOO_LARGE = auto()  # larger than the whole window
    OVER_WINDOW = auto()  # the sender had no credit for it
    WHOLE = auto()
    PART = auto()


class Action(Enum):
    """The reactions of a receiving end to a frame."""

    DELIVER = auto()  # give the frame to the engine
    KEEP = auto()  # hold the part until the others have come
    REPEAT = auto()  # drop it and acknowledge again
    STRAY = auto()  # drop it and answer `SessionGone`
    REFUSE = auto()  # refuse the sender; this session goes on
    FAIL = auto()  # fail this session


@dataclass(frozen=True, slots=True)
class Transition:
    """An entry of the table: the action, and the failure code that goes with STRAY, REFUSE and FAIL."""

    action: Action
    code: FailureCode = FailureCode.MALFORMED


_S, _A, _C = ReceivingState, Arrival, FailureCode
_LIVE: Final[dict[Arrival, Transition]] = {
    _A.UNKNOWN_SESSION: Transition(Action.STRAY, _C.UNKNOWN_SESSION),
    _A.OLD_EPOCH: Transition(Action.STRAY, _C.OLD_EPOCH),
    _A.FOREIGN_EDGE: Transition(Action.REFUSE, _C.EDGE_NOT_PERMITTED),
    _A.REPEAT: Transition(Action.REPEAT),
    _A.GAP: Transition(Action.FAIL, _C.SEQUENCE_GAP),
    _A.TOO_LARGE: Transition(Action.FAIL, _C.MESSAGE_TOO_LARGE),
    _A.OVER_WINDOW: Transition(Action.FAIL, _C.WINDOW_EXCEEDED),
    _A.PART: Transition(Action.KEEP),
}
TRANSITIONS: Final[dict[tuple[ReceivingState, Arrival], Transition]] = {
    **{(_S.EXPECTING, arrival): cell for arrival, cell in _LIVE.items()},
    (_S.EXPECTING, _A.WHOLE): Transition(Action.DELIVER),
    **{(_S.ASSEMBLING, arrival): cell for arrival, cell in _LIVE.items()},
    # A whole frame has the `seq` of the frame that is being assembled, so one of the two is false.
    (_S.ASSEMBLING, _A.WHOLE): Transition(Action.FAIL, _C.MALFORMED),
    **{(_S.CLOSED, arrival): Transition(Action.STRAY, _C.UNKNOWN_SESSION) for arrival in Arrival},
    (_S.CLOSED, _A.OLD_EPOCH): Transition(Action.STRAY, _C.OLD_EPOCH),
    (_S.CLOSED, _A.FOREIGN_EDGE): Transition(Action.REFUSE, _C.EDGE_NOT_PERMITTED),
}
