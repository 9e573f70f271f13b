"""Tickets: every way in which one gives no right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.constants import GATEWAY_STAGE
from meshnet.ids import Edge, SessionKey
from meshnet.keys import SignatureContext, SigningKey
from meshnet.tickets import MAX_TICKET_BYTES, EdgePermit, Ticket, TicketCode, TicketError, sign_ticket, verify_ticket
from meshnet.v1 import relay_pb2

SITE = SigningKey.from_bytes(b"s" * 32)
MEMBER = SigningKey.from_bytes(b"m" * 32)
STRANGER = SigningKey.from_bytes(b"x" * 32)
TICKET = Ticket(
    ticket_id=b"t" * 16,
    relay_id="relay-1",
    key=SessionKey(b"n" * 16, 1),
    stage=0,
    member_key=MEMBER.public_key,
    permits=(
        EdgePermit(Edge(GATEWAY_STAGE, 0), 4096, carries_frames=True),
        EdgePermit(Edge(0, GATEWAY_STAGE), 4096, carries_tokens=True),
    ),
    bytes_max=1 << 20,
    bytes_per_s=1 << 20,
    bind_before_unix_s=1_000,
)


def check(data: bytes, *, member: SigningKey = MEMBER, relay_id: str = "relay-1", now_unix_s: float = 999) -> Ticket:
    return verify_ticket(
        data,
        site_public_key=SITE.public_key,
        relay_id=relay_id,
        member_key=member.public_key,
        now_unix_s=now_unix_s,
    )


def refusal(data: bytes, *, member: SigningKey = MEMBER, relay_id: str = "relay-1", now_unix_s: float = 999) -> str:
    with pytest.raises(TicketError) as caught:
        check(data, member=member, relay_id=relay_id, now_unix_s=now_unix_s)
    return caught.value.code


def signed(body: relay_pb2.Ticket) -> bytes:
    data = body.SerializeToString()
    return relay_pb2.SignedTicket(ticket=data, signature=SITE.sign(SignatureContext.TICKET, data)).SerializeToString()


def body() -> relay_pb2.Ticket:
    return relay_pb2.Ticket.FromString(relay_pb2.SignedTicket.FromString(sign_ticket(TICKET, SITE)).ticket)


def test_a_signed_ticket_is_read_back_as_it_was_minted() -> None:
    assert check(sign_ticket(TICKET, SITE)) == TICKET


def test_a_ticket_of_another_signer_is_forged() -> None:
    assert refusal(sign_ticket(TICKET, STRANGER)) == TicketCode.FORGED


def test_a_signature_for_another_purpose_is_worthless() -> None:
    data = body().SerializeToString()
    other = relay_pb2.SignedTicket(ticket=data, signature=SITE.sign(SignatureContext.CONTROL, data))
    assert refusal(other.SerializeToString()) == TicketCode.FORGED


def test_a_changed_ticket_is_forged() -> None:
    message = relay_pb2.SignedTicket.FromString(sign_ticket(TICKET, SITE))
    message.ticket = message.ticket.replace(b"relay-1", b"relay-2")
    assert refusal(message.SerializeToString(), relay_id="relay-2") == TicketCode.FORGED


def test_another_member_cannot_use_a_stolen_ticket() -> None:
    assert refusal(sign_ticket(TICKET, SITE), member=STRANGER) == TicketCode.WRONG_MEMBER


def test_a_ticket_is_good_on_its_own_relay_alone() -> None:
    assert refusal(sign_ticket(TICKET, SITE), relay_id="relay-2") == TicketCode.WRONG_RELAY


@pytest.mark.parametrize(("now_unix_s", "is_good"), [(999.9, True), (1_000, False), (5_000, False)])
def test_a_ticket_expires(now_unix_s: float, is_good: bool) -> None:
    data = sign_ticket(TICKET, SITE)
    if is_good:
        assert check(data, now_unix_s=now_unix_s) == TICKET
    else:
        assert refusal(data, now_unix_s=now_unix_s) == TicketCode.EXPIRED


def test_an_oversized_ticket_is_not_even_parsed() -> None:
    assert refusal(b"\0" * (MAX_TICKET_BYTES + 1)) == TicketCode.MALFORMED


@pytest.mark.parametrize(
    "change",
    [
        {"ticket_id": b"short"},
        {"session": b"short"},
        {"epoch": 0},
        {"stage": 64},
        {"stage": 1},  # the edges are another stage's
        {"member_key": b"short"},
        {"edges": []},
        {"edges": [relay_pb2.EdgePermit(from_stage=0, to_stage=0)]},
        {"edges": [relay_pb2.EdgePermit(from_stage=0, to_stage=99)]},
        {"edges": [relay_pb2.EdgePermit(from_stage=0, to_stage=GATEWAY_STAGE, frames=True)]},
        {"edges": [relay_pb2.EdgePermit(from_stage=0, to_stage=1, tokens=True)]},
        {"edges": [relay_pb2.EdgePermit(from_stage=0, to_stage=1)] * 2},
    ],
)
def test_a_signed_ticket_whose_terms_make_no_sense_is_refused(change: dict[str, object]) -> None:
    message = body()
    for name in change:
        message.ClearField(name)
    message.MergeFrom(relay_pb2.Ticket(**change))  # type: ignore[arg-type]
    assert refusal(signed(message)) == TicketCode.MALFORMED


def test_control_permits_are_open_to_both_sides() -> None:
    plain = replace(TICKET, permits=(EdgePermit(Edge(0, GATEWAY_STAGE), 0),))
    assert check(sign_ticket(plain, SITE)) == plain


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert refusal(data) in set(TicketCode)


@given(st.data())
def test_no_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    good = sign_ticket(TICKET, SITE)
    place = data.draw(st.integers(0, len(good) - 1))
    changed = bytearray(good)
    changed[place] ^= data.draw(st.integers(1, 255))
    assert refusal(bytes(changed)) in {TicketCode.FORGED, TicketCode.MALFORMED}
