"""The states of a route, the kinds of input, and a table of the reaction to each input in each state.

Invariants: every pair of state and input kind has a cell. The three terminal states ignore every input.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class RouteState(Enum):
    """The states of a route; the last three are terminal."""

    PLANNING = auto()
    OPENING = auto()
    PREFILL = auto()
    DECODE = auto()
    FINISHED = auto()
    FAILED = auto()
    CANCELLED = auto()


TERMINAL: Final = frozenset({RouteState.FINISHED, RouteState.FAILED, RouteState.CANCELLED})


class InputKind(Enum):
    """The kinds of input, which are the columns of the table. `inputs.kind_of` returns the kind of an input."""

    PLANNED = auto()
    PLAN_FAILED = auto()
    RELAY_BOUND = auto()
    RELAY_FAILED = auto()
    STAGE_OPENED = auto()
    STAGE_REFUSED = auto()
    STAGE_GONE = auto()
    NODE_QUIET = auto()
    ACK = auto()
    PROGRESS = auto()
    TOKEN = auto()
    SESSION_GONE = auto()
    FAILURE = auto()
    OTHER_MESSAGE = auto()
    TIMEOUT = auto()
    CANCEL = auto()


class Reaction(Enum):
    """The reactions of the machine to an input. Each one except IGNORE is a method of `RouteMachine`."""

    IGNORE = auto()
    OPEN = auto()  # every stage of the plan, and the Gateway's place on the relay
    NOTE_BOUND = auto()
    NOTE_OPENED = auto()
    RETRY = auto()  # plan again without the node at fault, or fail
    FEED = auto()  # send more of the prompt, since the head has room
    ADVANCE = auto()  # tell the reader the prompt's progress
    TAKE_TOKEN = auto()
    NOTE_LATE = auto()
    FAIL = auto()
    GIVE_UP = auto()  # no plan was found
    CANCEL = auto()


_S, _I, _D = RouteState, InputKind, Reaction
_RUNNING: Final[dict[InputKind, Reaction]] = {
    _I.RELAY_FAILED: _D.FAIL,
    _I.STAGE_GONE: _D.FAIL,
    _I.NODE_QUIET: _D.NOTE_LATE,
    _I.ACK: _D.FEED,
    _I.PROGRESS: _D.ADVANCE,
    _I.TOKEN: _D.TAKE_TOKEN,
    _I.SESSION_GONE: _D.FAIL,
    _I.FAILURE: _D.FAIL,
    _I.TIMEOUT: _D.FAIL,
    _I.CANCEL: _D.CANCEL,
}
_CELLS: Final[dict[RouteState, dict[InputKind, Reaction]]] = {
    _S.PLANNING: {
        _I.PLANNED: _D.OPEN,
        _I.PLAN_FAILED: _D.GIVE_UP,
        _I.TIMEOUT: _D.FAIL,
        _I.CANCEL: _D.CANCEL,
    },
    _S.OPENING: {
        _I.RELAY_BOUND: _D.NOTE_BOUND,
        _I.RELAY_FAILED: _D.FAIL,
        _I.STAGE_OPENED: _D.NOTE_OPENED,
        _I.STAGE_REFUSED: _D.RETRY,
        _I.STAGE_GONE: _D.RETRY,
        _I.FAILURE: _D.RETRY,
        _I.TIMEOUT: _D.RETRY,
        _I.CANCEL: _D.CANCEL,
    },
    _S.PREFILL: _RUNNING,
    _S.DECODE: _RUNNING,
}
# A cell that is not named above ignores its input, for example if a member sends a message too early.
TRANSITIONS: Final[dict[tuple[RouteState, InputKind], Reaction]] = {
    (state, kind): _CELLS.get(state, {}).get(kind, _D.IGNORE) for state in _S for kind in _I
}
