"""What goes into a route's machine and what it wants done.

Invariant: frozen values. Inputs about an attempt name its epoch, so that late news of an older one can be told.
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
    """The planner found none."""

    error: RouteError


@dataclass(frozen=True, slots=True)
class RelayBound:
    """The Gateway's place on the relay stands."""

    epoch: int


@dataclass(frozen=True, slots=True)
class RelayFailed:
    """The relay refused or ended the session, or its connection is gone; `stage` is at fault, where one is."""

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
        """The message's body."""
        return cast("Body", self.message.body)


@dataclass(frozen=True, slots=True)
class Overdue:
    """A deadline of the route has passed; the machine's `tick` makes it. `stage` is at fault, or None if none is."""

    code: str
    message: str
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The reader wants no more."""

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
    """Plan (again), without these nodes; `by_new_offers`: those that are known already are out of date."""

    excluded_node_ids: frozenset[str]
    by_new_offers: bool = False


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """Bind the Gateway and open every stage, all at once."""

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
    """Close every stage and leave the relay; given once for each `OpenAttempt`, after its last message."""

    terms: RouteTerms
    reason: str


RouteAction: TypeAlias = PlanRoute | OpenAttempt | SendFrame | SendMessage | CloseAttempt
