"""Tickets: a member's right to take part in one session on one relay, signed by the site.

Invariants: pure; the caller gives the time. Earlier tickets are not remembered, so the relay itself refuses those that
were spent. If `verify_ticket` returns a ticket, the site has signed it, it is meant for this relay and this member, it
has not expired, and it names only edges that start or end at the member. Source: docs/wire.md, Relay and Signatures.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from meshnet.constants import GATEWAY_STAGE, MAX_STAGES, SESSION_ID_BYTES
from meshnet.errors import ProtocolError
from meshnet.ids import Edge, SessionKey, is_stage
from meshnet.keys import PUBLIC_KEY_BYTES, SignatureContext, verify
from meshnet.v1 import relay_pb2

if TYPE_CHECKING:
    from meshnet.keys import SigningKey

TICKET_ID_BYTES: Final = 16
# A Gateway's ticket for 64 stages has 129 edges of about 20 bytes.
MAX_TICKET_BYTES: Final = 16 * 1024


class TicketCode(StrEnum):
    """The reason why a ticket was refused."""

    MALFORMED = "ticket_malformed"
    FORGED = "ticket_forged"
    WRONG_RELAY = "ticket_wrong_relay"
    WRONG_MEMBER = "ticket_wrong_member"
    EXPIRED = "ticket_expired"
    SPENT = "ticket_spent"


class TicketError(ProtocolError):
    """A ticket does not give the right to bind on this relay now."""

    def __init__(self, code: TicketCode, message: str) -> None:
        super().__init__(code, "Ticket refused", message)


@dataclass(frozen=True, slots=True)
class EdgePermit:
    """The kinds of packets that may travel on one edge. Control packets may go both ways along it in any case.

    Attributes:
        window_bytes: most bytes of packets, each counted as its `held_bytes`, that may wait in the relay.
        carries_frames: whether frames may travel.
        carries_tokens: whether token events may travel.
    """

    edge: Edge
    window_bytes: int
    carries_frames: bool = False
    carries_tokens: bool = False


@dataclass(frozen=True, slots=True)
class Ticket:
    """The content of a ticket; the fields are those of `relay.proto`.

    Attributes:
        member_key: Ed25519 public key of the member, which alone may bind with the ticket.
        permits: every edge that starts or ends at the member.
        bytes_max: most payload bytes that the member may send during the session.
        bytes_per_s: most payload bytes per second, on average; a burst may have one second's worth.
        bind_before_unix_s: Unix time from which the ticket does not bind any more, by the clock of site and relay.
    """

    ticket_id: bytes
    relay_id: str
    key: SessionKey
    stage: int
    member_key: bytes
    permits: tuple[EdgePermit, ...]
    bytes_max: int
    bytes_per_s: int
    bind_before_unix_s: int


def sign_ticket(ticket: Ticket, site_key: SigningKey) -> bytes:
    """Serialise and sign a ticket; return the bytes of a `SignedTicket`."""
    body = relay_pb2.Ticket(
        ticket_id=ticket.ticket_id,
        relay_id=ticket.relay_id,
        session=ticket.key.session,
        epoch=ticket.key.epoch,
        stage=ticket.stage,
        member_key=ticket.member_key,
        edges=[
            relay_pb2.EdgePermit(
                from_stage=permit.edge.from_stage,
                to_stage=permit.edge.to_stage,
                window_bytes=permit.window_bytes,
                frames=permit.carries_frames,
                tokens=permit.carries_tokens,
            )
            for permit in ticket.permits
        ],
        bytes_max=ticket.bytes_max,
        bytes_per_s=ticket.bytes_per_s,
        bind_before_unix_s=ticket.bind_before_unix_s,
    ).SerializeToString(deterministic=True)
    signature = site_key.sign(SignatureContext.TICKET, body)
    return relay_pb2.SignedTicket(ticket=body, signature=signature).SerializeToString(deterministic=True)


def verify_ticket(
    data: bytes, *, site_public_key: bytes, relay_id: str, member_key: bytes, now_unix_s: float
) -> Ticket:
    """Check that `data` lets the owner of `member_key` bind on this relay now, and return the ticket.

    The signature is checked before anything inside is read.

    Raises:
        TicketError: it does not; the code gives the reason.
    """
    if len(data) > MAX_TICKET_BYTES:
        raise TicketError(TicketCode.MALFORMED, f"A ticket has {len(data)} bytes; the limit is {MAX_TICKET_BYTES}.")
    try:
        signed = relay_pb2.SignedTicket.FromString(data)
    except DecodeError as error:
        raise TicketError(TicketCode.MALFORMED, "The bytes are not a signed ticket.") from error
    if not verify(site_public_key, SignatureContext.TICKET, signed.ticket, signed.signature):
        raise TicketError(TicketCode.FORGED, "The site did not sign this ticket.")
    ticket = _read_ticket(signed.ticket)
    if ticket.relay_id != relay_id:
        raise TicketError(TicketCode.WRONG_RELAY, "The ticket names another relay.")
    if ticket.member_key != member_key:
        raise TicketError(TicketCode.WRONG_MEMBER, "The ticket names another member.")
    if now_unix_s >= ticket.bind_before_unix_s:
        raise TicketError(TicketCode.EXPIRED, "The ticket's time to bind is over.")
    return ticket


def claimed_place(data: bytes) -> tuple[SessionKey, int] | None:
    """Return the session and stage that a signed ticket names, or None if the bytes name none.

    The signature is not verified, so the result may only be used to address an answer.
    """
    if len(data) > MAX_TICKET_BYTES:
        return None
    try:
        body = relay_pb2.Ticket.FromString(relay_pb2.SignedTicket.FromString(data).ticket)
    except DecodeError:
        return None
    is_named = len(body.session) == SESSION_ID_BYTES and body.epoch >= 1
    return (SessionKey(body.session, body.epoch), body.stage) if is_named else None


def _read_ticket(data: bytes) -> Ticket:
    try:
        body = relay_pb2.Ticket.FromString(data)
    except DecodeError as error:
        raise TicketError(TicketCode.MALFORMED, "The signed bytes are not a ticket.") from error
    _require(len(body.ticket_id) == TICKET_ID_BYTES, "a ticket id of 16 bytes")
    _require(len(body.session) == SESSION_ID_BYTES and body.epoch >= 1, "a session and an epoch")
    _require(is_stage(body.stage), "a stage")
    _require(len(body.member_key) == PUBLIC_KEY_BYTES, "a member key of 32 bytes")
    permits = tuple(_read_permit(permit, body.stage) for permit in body.edges)
    _require(0 < len({permit.edge for permit in permits}) == len(permits), "each edge once, and at least one")
    return Ticket(
        ticket_id=body.ticket_id,
        relay_id=body.relay_id,
        key=SessionKey(body.session, body.epoch),
        stage=body.stage,
        member_key=body.member_key,
        permits=permits,
        bytes_max=body.bytes_max,
        bytes_per_s=body.bytes_per_s,
        bind_before_unix_s=body.bind_before_unix_s,
    )


def _read_permit(permit: relay_pb2.EdgePermit, stage: int) -> EdgePermit:
    edge = Edge(permit.from_stage, permit.to_stage)
    _require(is_stage(edge.from_stage) and is_stage(edge.to_stage), "stages on every edge")
    _require(edge.from_stage != edge.to_stage, "edges between two stages")
    _require(stage in {edge.from_stage, edge.to_stage}, "edges of the member alone")
    _require(not permit.frames or edge.to_stage < MAX_STAGES, "no frames to the Gateway")
    _require(not permit.tokens or edge.to_stage == GATEWAY_STAGE, "token events to the Gateway alone")
    return EdgePermit(edge, permit.window_bytes, carries_frames=permit.frames, carries_tokens=permit.tokens)


def _require(condition: bool, need: str) -> None:
    if not condition:
        raise TicketError(TicketCode.MALFORMED, f"A ticket needs {need}.")
