"""Inputs and actions of a route's machine.

Invariants: frozen values. Inputs about an attempt name its epoch, so that late news of an older attempt can be
recognised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast

from meshnet.frame import EdgeBody

if TYPE_CHECKING:
    from meshnet.errors import RouteError
    from meshnet.frame import EdgeMessage, Frame
    from meshnet.v1 import session_pb2
    from tracker_site.routes.planning.planner import RoutePlan
    from tracker_site.routes.session.terms import RouteTerms

Body = TypeVar("Body", bound=EdgeBody)


@dataclass(frozen=True, slots=True)
class Planned:
    """The planner found a route."""

    plan: RoutePlan


@dataclass(frozen=True, slots=True)
class PlanFailed:
    """The planner found no route."""

    error: RouteError


@dataclass(frozen=True, slots=True)
class RelayBound:
    """The relay has bound the Gateway to the session."""

    epoch: int


@dataclass(frozen=True, slots=True)
class RelayFailed:
    """The relay refused or ended the session, or is disconnected; `stage` is at fault, or None if no stage is."""

    epoch: int
    code: str
    message: str
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class StageOpened:
    """A node opened its stage."""

    epoch: int
    stage: int
    contract: session_pb2.BoundaryContract


@dataclass(frozen=True, slots=True)
class StageRefused:
    """A node did not open its stage."""

    epoch: int
    stage: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class StageGone:
    """A stage's member left the relay, or its node ended the session."""

    epoch: int
    stage: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeQuiet:
    """A node's control connection is gone; its data connection may still stand."""

    epoch: int
    stage: int


@dataclass(frozen=True, slots=True)
class Received(Generic[Body]):
    """An edge message with a body of this kind came from a stage over the relay."""

    sender: int
    message: EdgeMessage

    @property
    def body(self) -> Body:
        """The message's body, typed by the kind of input."""
        return cast("Body", self.message.body)


@dataclass(frozen=True, slots=True)
class Overdue:
    """A deadline of the route has passed; `RouteMachine.tick` creates it. `stage` is at fault, or None if none is."""

    code: str
    message: str
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The reader has closed the route."""

    reason: str


RouteInput: TypeAlias = (
    Planned
    | PlanFailed
    | RelayBound
    | RelayFailed
    | StageOpened
    | StageRefused
    | StageGone
    | NodeQuiet
    | Received[EdgeBody]
    | Overdue
    | Cancelled
)


@dataclass(frozen=True, slots=True)
class PlanRoute:
    """Plan without these nodes. If `by_new_offers`, known offers are out of date and must be read again."""

    excluded_node_ids: frozenset[str]
    by_new_offers: bool = False


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """Bind the Gateway and open all stages concurrently."""

    terms: RouteTerms


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send prompt rows to the head."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Send an edge message to a stage."""

    to_stage: int
    message: EdgeMessage


@dataclass(frozen=True, slots=True)
class CloseAttempt:
    """Close every stage and leave the relay; follows each `OpenAttempt` once, after its last message."""

    terms: RouteTerms
    reason: str


RouteAction: TypeAlias = PlanRoute | OpenAttempt | SendFrame | SendMessage | CloseAttempt
