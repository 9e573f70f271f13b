"""Builds the messages that open a stage and bind a member: the SessionSpec and the ticket.

Invariants: pure; a stage's ticket permits exactly the relayed edges of the stage's SessionSpec. Only the tail gets the
sampling options and end tokens. Source: session.proto, relay.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.constants import GATEWAY_STAGE, TOKEN_ACK_WINDOW
from meshnet.frame import Codec
from meshnet.generation.sampling_message import sampling_message
from meshnet.tickets import EdgePermit, Ticket
from meshnet.v1 import control_pb2, frame_pb2, session_pb2
from tracker_site.routes.planning.codec_choice import seam_codecs
from tracker_site.routes.planning.edges import MESSAGE_OVERHEAD_BYTES, plan_edges
from tracker_site.routes.planning.offers import Hop
from tracker_site.routes.planning.pipeline import UNKNOWN_SEAM_BYTES_PER_ROW, plan_chunking

if TYPE_CHECKING:
    from meshnet.generation.chunking import Chunking
    from meshnet.ids import SessionKey
    from tracker_site.routes.planning.edges import RouteEdge
    from tracker_site.routes.planning.planner import RoutePlan
    from tracker_site.routes.planning.request import RouteRequest
    from tracker_site.routes.session.deadlines import RouteDeadlines

# A member binds while its stage is being opened, and may come back with the same ticket after a broken connection.
TICKET_LIFE_S: Final = 60
# Sustained rate of one member on the relay: several chunks of the widest seam in a second.
RELAY_BYTES_PER_S: Final = 64 * 1024 * 1024
# Rows that a route may compute for one token: rejected drafts are rows too.
_ROWS_PER_TOKEN: Final = 8
_CONTROL_ALLOWANCE_BYTES: Final = 1024 * 1024

_CARRIERS: Final = {
    # Two shards of one node are two workers of one agent, which carries the messages between them.
    Hop.LOCAL: session_pb2.EdgeSpec.CARRIER_RELAY,
    Hop.DIRECT: session_pb2.EdgeSpec.CARRIER_DIRECT,
    Hop.RELAY: session_pb2.EdgeSpec.CARRIER_RELAY,
}


@dataclass(frozen=True, slots=True)
class RouteTerms:
    """Everything that is decided before a planned route is opened; it does not change during the attempt.

    Attributes:
        key: session, and epoch of this attempt.
        chunking: size of the prompt's chunks, and windows for the rows in flight.
        step_s: seconds that one stage may take for one step.
    """

    key: SessionKey
    request: RouteRequest
    plan: RoutePlan
    chunking: Chunking
    edges: tuple[RouteEdge, ...]
    deadlines: RouteDeadlines
    step_s: float

    @property
    def n_stages(self) -> int:
        """Number of stages."""
        return len(self.plan.stages)

    @property
    def recipe(self) -> str:
        """Recipe of every stage; empty if they differ."""
        recipes = {offer.shard.recipe for offer in self.plan.stages}
        return recipes.pop() if len(recipes) == 1 else ""

    @property
    def tail(self) -> int:
        """Index of the last stage."""
        return self.n_stages - 1


def route_terms(key: SessionKey, request: RouteRequest, plan: RoutePlan, deadlines: RouteDeadlines) -> RouteTerms:
    """Choose the codecs, chunks and edges for an attempt to open a planned route."""
    codecs = seam_codecs(request, plan.stages)
    chunking = plan_chunking(plan.stages, codecs, len(request.prompt_tokens), is_exact=request.is_exact)
    edges = plan_edges(plan.stages, chunking.windows, codecs)
    return RouteTerms(key, request, plan, chunking, edges, deadlines, deadlines.step_s(plan.stages, chunking))


def open_stage(terms: RouteTerms, stage: int, signed_ticket: bytes) -> control_pb2.OpenStage:
    """Return the request that asks a node to open a stage. The node's control connection sets `request_id` later."""
    is_linked = any(one.hop is Hop.DIRECT and _touches(one, stage) for one in terms.edges)
    return control_pb2.OpenStage(
        spec=_session_spec(terms, stage),
        ticket=signed_ticket,
        artifact_digest=terms.request.artifact_digest,
        link_fingerprint=terms.plan.stages[stage].reach.link_fingerprint if is_linked else b"",
    )


def _session_spec(terms: RouteTerms, stage: int) -> session_pb2.SessionSpec:
    request, offer, deadlines = terms.request, terms.plan.stages[stage], terms.deadlines
    spec = session_pb2.SessionSpec(
        session=terms.key.session,
        epoch=terms.key.epoch,
        stage=stage,
        n_stages=terms.n_stages,
        layers=session_pb2.LayerRange(layer_begin=offer.shard.layer_begin, layer_end=offer.shard.layer_end),
        contract_digest=offer.shard.contract_digest,
        recipe=terms.recipe,
        prompt_tokens=len(request.prompt_tokens),
        max_tokens=request.max_tokens,
        edges=[_edge_spec(terms, one, stage) for one in terms.edges if _touches(one, stage)],
        idle_ms=_milliseconds(deadlines.idle_s),
        step_deadline_ms=_milliseconds(terms.step_s - deadlines.telling_s),
        token_window=TOKEN_ACK_WINDOW,
        gateway_grace_ms=_milliseconds(deadlines.grace_s),
        exact=request.is_exact,
    )
    if stage == terms.tail:
        spec.sampling.CopyFrom(sampling_message(request.sampling))
        spec.end_tokens.extend(request.end_tokens)
    return spec


def _edge_spec(terms: RouteTerms, one: RouteEdge, stage: int) -> session_pb2.EdgeSpec:
    edge = one.edge
    is_own_ring = edge.from_stage == edge.to_stage
    spec = session_pb2.EdgeSpec(
        from_stage=edge.from_stage,
        to_stage=edge.to_stage,
        carrier=session_pb2.EdgeSpec.CARRIER_LOCAL if is_own_ring else _CARRIERS[one.hop],
        window_frames=one.window.frames,
        window_bytes=one.window.tensor_bytes,
        codec=None if one.codec is Codec.RAW else frame_pb2.Codec.Name(one.codec),
    )
    if one.hop is Hop.DIRECT:
        peer = terms.plan.stages[edge.to_stage if edge.from_stage == stage else edge.from_stage]
        spec.dial = one.dialler == stage
        spec.peer_address = peer.reach.link_address if spec.dial else ""
        spec.peer_fingerprint = peer.reach.link_fingerprint
    return spec


@dataclass(frozen=True, slots=True)
class TicketIssue:
    """The parts of a ticket that do not follow from the route: its id, relay and holder, and the Unix time of issue."""

    ticket_id: bytes
    relay_id: str
    stage: int
    member_key: bytes
    now_unix_s: float


def member_ticket(terms: RouteTerms, issue: TicketIssue) -> Ticket:
    """Return the unsigned ticket of one member: a stage, or the Gateway."""
    return Ticket(
        ticket_id=issue.ticket_id,
        relay_id=issue.relay_id,
        key=terms.key,
        stage=issue.stage,
        member_key=issue.member_key,
        permits=tuple(_permit(one) for one in terms.edges if _touches(one, issue.stage) and _is_relayed(one)),
        bytes_max=_bytes_max(terms, issue.stage),
        bytes_per_s=RELAY_BYTES_PER_S,
        bind_before_unix_s=int(issue.now_unix_s) + TICKET_LIFE_S,
    )


def _permit(one: RouteEdge) -> EdgePermit:
    return EdgePermit(
        one.edge,
        one.relay_window_bytes,
        carries_frames=one.window.frames > 0,
        carries_tokens=one.carries_tokens,
    )


def _bytes_max(terms: RouteTerms, stage: int) -> int:
    row_bytes = MESSAGE_OVERHEAD_BYTES
    if stage != GATEWAY_STAGE:
        row_bytes += terms.plan.stages[stage].shard.seam_bytes_per_row or UNKNOWN_SEAM_BYTES_PER_ROW
    rows = len(terms.request.prompt_tokens) + _ROWS_PER_TOKEN * terms.request.max_tokens
    return _CONTROL_ALLOWANCE_BYTES + rows * row_bytes


def _is_relayed(one: RouteEdge) -> bool:
    return one.hop is not Hop.DIRECT and one.edge.from_stage != one.edge.to_stage


def _touches(one: RouteEdge, stage: int) -> bool:
    return stage in {one.edge.from_stage, one.edge.to_stage}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
