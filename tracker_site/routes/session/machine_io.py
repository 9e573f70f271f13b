"""Inputs and actions of a route's machine, `RouteMachine`.

Invariants: frozen values. Inputs about an attempt to open the route name its epoch, so that late inputs of an older
attempt can be recognised.
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
    """The relay refused or ended the session, or is disconnected. `stage` is the one at fault; None if no stage is."""

    epoch: int
    code: str
    message: str
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class StageOpened:
    """A node opened its stage, which has this boundary contract."""

    epoch: int
    stage: int
    contract: session_pb2.BoundaryContract


@dataclass(frozen=True, slots=True)
class StageRefused:
    """A node refused to open its stage, or did not answer in time."""

    epoch: int
    stage: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class StageGone:
    """A stage has left the relay or sent invalid bytes, or its node has ended the session."""

    epoch: int
    stage: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeQuiet:
    """The control connection of a stage's node is gone; the node's data connection may still stand."""

    epoch: int
    stage: int


@dataclass(frozen=True, slots=True)
class Received(Generic[Body]):
    """A message with a body of type `Body` came over the relay from the stage `sender`."""

    sender: int
    message: EdgeMessage

    @property
    def body(self) -> Body:
        """The message's body, as type `Body`."""
        return cast("Body", self.message.body)


@dataclass(frozen=True, slots=True)
class Overdue:
    """A deadline has passed; `RouteMachine.tick` makes this input. `stage` is the one at fault; None if no stage is."""

    code: str
    message: str
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller has closed the route or cancelled the opening of it."""

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
    """Plan a route without these nodes. If `by_new_offers`, known offers are out of date and must be read again."""

    excluded_node_ids: frozenset[str]
    by_new_offers: bool = False


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """Bind the Gateway on the relay and open all stages of an attempt concurrently."""

    terms: RouteTerms


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send a frame of prompt rows to the head."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Send a message other than a frame to a stage, for example an acknowledgement."""

    to_stage: int
    message: EdgeMessage


@dataclass(frozen=True, slots=True)
class CloseAttempt:
    """Close every stage of an attempt and unbind the Gateway on the relay. Every `OpenAttempt` has one."""

    terms: RouteTerms
    reason: str


RouteAction: TypeAlias = PlanRoute | OpenAttempt | SendFrame | SendMessage | CloseAttempt
