"""A route's states, what can happen to it, and what is done then, as data.

Invariants: every state x happening has a cell; the three terminal states ignore everything.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class RouteState(Enum):
    """Where a route stands."""

    PLANNING = auto()
    OPENING = auto()
    PREFILL = auto()
    DECODE = auto()
    FINISHED = auto()
    FAILED = auto()
    CANCELLED = auto()


TERMINAL: Final = frozenset({RouteState.FINISHED, RouteState.FAILED, RouteState.CANCELLED})


class Happening(Enum):
    """What can happen to a route."""

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


class Step(Enum):
    """What is done about it."""

    IGNORE = auto()
    OPEN = auto()  # every stage of the plan, and the Gateway's place on the relay
    NOTE_BOUND = auto()
    NOTE_OPENED = auto()
    RETRY = auto()  # plan again without the node at fault, or fail
    FEED = auto()  # the head has room for more of the prompt
    ADVANCE = auto()  # tell the reader how far the prompt is
    TAKE_TOKEN = auto()
    NOTE_LATE = auto()
    FAIL = auto()
    CANCEL = auto()


_S, _H, _D = RouteState, Happening, Step
_RUNNING: Final[dict[Happening, Step]] = {
    _H.RELAY_FAILED: _D.FAIL,
    _H.STAGE_GONE: _D.FAIL,
    _H.NODE_QUIET: _D.NOTE_LATE,
    _H.ACK: _D.FEED,
    _H.PROGRESS: _D.ADVANCE,
    _H.TOKEN: _D.TAKE_TOKEN,
    _H.SESSION_GONE: _D.FAIL,
    _H.FAILURE: _D.FAIL,
    _H.TIMEOUT: _D.FAIL,
    _H.CANCEL: _D.CANCEL,
}
_CELLS: Final[dict[RouteState, dict[Happening, Step]]] = {
    _S.PLANNING: {
        _H.PLANNED: _D.OPEN,
        _H.PLAN_FAILED: _D.FAIL,
        _H.TIMEOUT: _D.FAIL,
        _H.CANCEL: _D.CANCEL,
    },
    _S.OPENING: {
        _H.RELAY_BOUND: _D.NOTE_BOUND,
        _H.RELAY_FAILED: _D.FAIL,
        _H.STAGE_OPENED: _D.NOTE_OPENED,
        _H.STAGE_REFUSED: _D.RETRY,
        _H.STAGE_GONE: _D.RETRY,
        _H.FAILURE: _D.RETRY,
        _H.TIMEOUT: _D.RETRY,
        _H.CANCEL: _D.CANCEL,
    },
    _S.PREFILL: _RUNNING,
    _S.DECODE: _RUNNING,
}
# What is not named does nothing: late news of an older attempt, or a member that speaks too early.
TRANSITIONS: Final[dict[tuple[RouteState, Happening], Step]] = {
    (state, happening): _CELLS.get(state, {}).get(happening, _D.IGNORE) for state in _S for happening in _H
}
