"""What an input means: its column in the transition table, and the trouble that it tells of.

Invariant: pure; a code or text that came from a node is kept as it is, except that a stage which is gone has one code
whoever tells of it first; a trouble's stage is one of the route's or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.failure_codes import STAGE_LOSSES, FailureCode, title_of
from meshnet.frame import Ack, PrefillProgress, SessionGone, StageFailure, TokenEvent
from tracker_site.routes.planning.request import RouteFailedError
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.transitions import Happening

if TYPE_CHECKING:
    from tracker_site.routes.session.machine_io import RouteInput

_INPUTS: Final[dict[type, Happening]] = {
    io.Planned: Happening.PLANNED,
    io.PlanFailed: Happening.PLAN_FAILED,
    io.RelayBound: Happening.RELAY_BOUND,
    io.RelayFailed: Happening.RELAY_FAILED,
    io.StageOpened: Happening.STAGE_OPENED,
    io.StageRefused: Happening.STAGE_REFUSED,
    io.StageGone: Happening.STAGE_GONE,
    io.NodeQuiet: Happening.NODE_QUIET,
    io.Cancelled: Happening.CANCEL,
}
_BODIES: Final[dict[type, Happening]] = {
    Ack: Happening.ACK,
    PrefillProgress: Happening.PROGRESS,
    TokenEvent: Happening.TOKEN,
    SessionGone: Happening.SESSION_GONE,
    StageFailure: Happening.FAILURE,
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a route cannot go on; `stage` is at fault, where one is."""

    code: str
    message: str
    stage: int | None = None

    def to_error(self) -> RouteFailedError:
        """As the reader gets it."""
        return RouteFailedError(self.code, title_of(self.code, "Route failed"), self.message, self.stage)


def happening_of(given: RouteInput) -> Happening:
    """The column of the transition table."""
    if isinstance(given, io.Received):
        return _BODIES.get(type(given.message.body), Happening.OTHER_MESSAGE)
    return _INPUTS[type(given)]


def trouble_of(given: RouteInput, n_stages: int) -> Trouble:
    """The trouble that an input tells of.

    Raises:
        ValueError: it tells of none.
    """
    match given:
        case io.RelayFailed(code=code, message=message, stage=stage):
            return Trouble(code, message, stage if stage is not None and stage < n_stages else None)
        case io.StageRefused() | io.StageGone():
            code = FailureCode.STAGE_LOST if given.code in STAGE_LOSSES else given.code
            return Trouble(code, given.message, given.stage)
        case io.Received(sender, message):
            body = message.body
            if isinstance(body, StageFailure):
                return Trouble(body.code, body.message, body.stage if body.stage < n_stages else sender)
            if isinstance(body, SessionGone):
                return Trouble(FailureCode.STAGE_LOST, f"Stage {sender} no longer has this session.", sender)
    raise ValueError(f"{type(given).__name__} tells of no trouble")
