"""Finds the kind of an input of a route's machine, and the failure that an input reports.

Invariants: pure. The code and text that a node reports are kept, except that all codes for the loss of a stage become
`stage_lost`. The stage of a failure is a stage of the route or None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.failure_codes import STAGE_LOSSES, FailureCode, title_of
from meshnet.frame import Ack, PrefillProgress, SessionGone, StageFailure, TokenEvent
from tracker_site.routes.planning.request import RouteFailedError
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.transitions import InputKind

if TYPE_CHECKING:
    from tracker_site.routes.session.machine_io import RouteInput

_KINDS: Final[dict[type, InputKind]] = {
    io.Planned: InputKind.PLANNED,
    io.PlanFailed: InputKind.PLAN_FAILED,
    io.RelayBound: InputKind.RELAY_BOUND,
    io.RelayFailed: InputKind.RELAY_FAILED,
    io.StageOpened: InputKind.STAGE_OPENED,
    io.StageRefused: InputKind.STAGE_REFUSED,
    io.StageGone: InputKind.STAGE_GONE,
    io.NodeQuiet: InputKind.NODE_QUIET,
    io.Overdue: InputKind.TIMEOUT,
    io.Cancelled: InputKind.CANCEL,
}
_KINDS_BY_BODY: Final[dict[type, InputKind]] = {
    Ack: InputKind.ACK,
    PrefillProgress: InputKind.PROGRESS,
    TokenEvent: InputKind.TOKEN,
    SessionGone: InputKind.SESSION_GONE,
    StageFailure: InputKind.FAILURE,
}


@dataclass(frozen=True, slots=True)
class RouteFailure:
    """The reason why a route cannot go on. `stage` is the stage at fault, or None if no stage is."""

    code: str
    message: str
    stage: int | None = None

    def to_error(self) -> RouteFailedError:
        """Return the error that the reader of the route gets."""
        return RouteFailedError(self.code, title_of(self.code, "Route failed"), self.message, self.stage)


def kind_of(given: RouteInput) -> InputKind:
    """Return the kind of an input, which is its column in the transition table."""
    if isinstance(given, io.Received):
        return _KINDS_BY_BODY.get(type(given.message.body), InputKind.OTHER_MESSAGE)
    return _KINDS[type(given)]


def failure_of(given: RouteInput, n_stages: int) -> RouteFailure:
    """Return the failure that an input reports on a route with `n_stages` stages.

    Raises:
        ValueError: if the input reports no failure.
    """
    match given:
        case io.RelayFailed(code=code, message=message, stage=stage):
            return RouteFailure(code, message, stage if stage is not None and stage < n_stages else None)
        case io.Overdue(code=code, message=message, stage=stage):
            return RouteFailure(code, message, stage)
        case io.StageRefused() | io.StageGone():
            code = FailureCode.STAGE_LOST if given.code in STAGE_LOSSES else given.code
            return RouteFailure(code, given.message, given.stage)
        case io.Received(sender, message):
            body = message.body
            if isinstance(body, StageFailure):
                return RouteFailure(body.code, body.message, body.stage if body.stage < n_stages else sender)
            if isinstance(body, SessionGone):
                return RouteFailure(FailureCode.STAGE_LOST, f"Stage {sender} no longer has this session.", sender)
    raise ValueError(f"{type(given).__name__} reports no failure")
