"""The relay's rules for connections and bindings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.constants import GATEWAY_STAGE
from meshnet.ids import Edge
from meshnet.keys import SigningKey
from meshnet.member_events import (
    Binding,
    BindRefused,
    Bound,
    Closed,
    MemberState,
    RelayCode,
    SessionEnded,
)
from meshnet.tickets import EdgePermit, TicketCode
from meshnet.v1 import relay_pb2
from tests.unit.tracker_site.relay.swarm import LIMITS, Swarm, a_key, a_packet, a_swarm, a_token


@pytest.fixture
def swarm() -> Swarm:
    return a_swarm()


def raw(message: relay_pb2.MemberMessage) -> bytes:
    return message.SerializeToString()


def dismissal(swarm: Swarm, name: str) -> str:
    """The code with which the relay has just closed a member's connection."""
    assert swarm.flow.is_dismissed(swarm.ids[name])
    swarm.read(name)
    (closed,) = [event for event in swarm.events(name) if isinstance(event, Closed)]
    return closed.code


def bind_code(swarm: Swarm, name: str, **changes: object) -> str:
    """The code with which the relay refuses a ticket for the head's place."""
    (event,) = swarm.bind(name, swarm.ticket("head", 0, 0, **changes))
    assert isinstance(event, BindRefused)
    return event.code


# --- connections ---


def test_a_member_proves_its_key_and_is_welcome() -> None:
    swarm = Swarm()
    member = swarm.connect("head")
    swarm.settle()
    assert member.state is MemberState.READY
    assert (swarm.flow.members, swarm.flow.next_deadline_s()) == (1, None)


def test_a_proof_of_another_challenge_is_bad() -> None:
    swarm = Swarm()
    swarm.connect("head")
    swarm.connect("tail")
    swarm.read("head")
    (proof,) = swarm.members["head"].data_to_send()
    swarm.flow.receive(swarm.ids["tail"], proof, swarm.now)
    assert dismissal(swarm, "tail") == RelayCode.BAD_PROOF
    assert not swarm.flow.is_dismissed(swarm.ids["head"])


@pytest.mark.parametrize(
    "message",
    [
        b"\xff\xff\xff",
        b"",
        b"\0" * (LIMITS.message_max_bytes + 1),
        raw(relay_pb2.MemberMessage(proof=relay_pb2.MemberProof(public_key=b"k" * 32, signature=b"s" * 64))),
        raw(relay_pb2.MemberMessage(bind=relay_pb2.Bind(signed_ticket=b"\xff"))),
        raw(relay_pb2.MemberMessage(bind=relay_pb2.Bind(signed_ticket=b""))),
        raw(relay_pb2.MemberMessage(unbind=relay_pb2.Unbind(session=b"short", epoch=1))),
        raw(relay_pb2.MemberMessage(packets=relay_pb2.PacketBatch(packets=[relay_pb2.Packet()]))),
    ],
)
def test_what_makes_no_sense_costs_the_connection_alone(swarm: Swarm, message: bytes) -> None:
    swarm.bind_route()
    swarm.flow.receive(swarm.ids["head"], message, swarm.now)
    assert dismissal(swarm, "head") in {"malformed", "message_too_large"}
    assert (swarm.flow.members, swarm.flow.sessions) == (2, 1)
    assert swarm.members["tail"].state is MemberState.READY


@pytest.mark.parametrize("body", ["bind", "unbind", "packets"])
def test_nothing_but_a_proof_comes_first(body: str) -> None:
    swarm = Swarm()
    swarm.connect("head")
    bodies: dict[str, object] = {
        "bind": relay_pb2.Bind(signed_ticket=b"t"),
        "unbind": relay_pb2.Unbind(session=b"s" * 16, epoch=1),
        "packets": relay_pb2.PacketBatch(),
    }
    message = relay_pb2.MemberMessage(**{body: bodies[body]})  # type: ignore[arg-type]  # names of the proto
    swarm.flow.receive(swarm.ids["head"], message.SerializeToString(), swarm.now)
    assert dismissal(swarm, "head") == "malformed"


def test_an_overdue_proof_costs_the_connection() -> None:
    swarm = Swarm()
    swarm.connect("head")
    due_s = swarm.flow.next_deadline_s()
    assert due_s == swarm.now.monotonic_s + LIMITS.proof_timeout_s
    swarm.flow.tick(swarm.now)
    assert not swarm.flow.is_dismissed(swarm.ids["head"])
    swarm.flow.tick(swarm.now._replace(monotonic_s=due_s))
    assert dismissal(swarm, "head") == RelayCode.PROOF_OVERDUE


def test_one_member_too_many_is_turned_away() -> None:
    swarm = Swarm()
    for number in range(LIMITS.members_max):
        swarm.join(f"member{number}")
    swarm.connect("late")
    assert dismissal(swarm, "late") == RelayCode.RELAY_FULL
    assert swarm.flow.members == LIMITS.members_max


def test_nothing_is_heard_of_a_dismissed_or_unknown_member(swarm: Swarm) -> None:
    swarm.bind_route()
    swarm.flow.receive(swarm.ids["head"], b"\xff", swarm.now)
    swarm.flow.receive(swarm.ids["head"], b"\xff", swarm.now)
    swarm.flow.receive(99, b"\xff", swarm.now)
    assert swarm.flow.counts.members_dismissed == 1
    assert swarm.flow.take(99) is None


def test_unread_answers_do_not_pile_up(swarm: Swarm) -> None:
    for number in range(LIMITS.answers_max + 1):
        stray = relay_pb2.Packet(session=number.to_bytes(16, "big"), epoch=1, to_stage=1, kind=1, payload=b"p")  # type: ignore[arg-type]
        batch = relay_pb2.MemberMessage(packets=relay_pb2.PacketBatch(packets=[stray]))
        swarm.flow.receive(swarm.ids["head"], raw(batch), swarm.now)
    assert dismissal(swarm, "head") == RelayCode.TOO_SLOW


def test_only_members_with_something_to_write_are_woken(swarm: Swarm) -> None:
    swarm.bind_route()
    swarm.flow.woken()
    swarm.send("gateway", a_packet(GATEWAY_STAGE, 0))
    assert swarm.flow.woken() == {swarm.ids["head"]}
    assert swarm.flow.woken() == set()


# --- tickets ---


def test_a_good_ticket_binds(swarm: Swarm) -> None:
    swarm.bind_route()
    assert swarm.flow.sessions == 1


def test_a_forged_ticket_is_refused_and_the_connection_stays(swarm: Swarm) -> None:
    (event,) = swarm.bind("head", swarm.ticket("head", 0), signer=SigningKey.from_bytes(b"x" * 32))
    assert isinstance(event, BindRefused)
    assert event.code == TicketCode.FORGED
    assert swarm.members["head"].state is MemberState.READY
    assert swarm.flow.sessions == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"relay_id": "relay-2"}, TicketCode.WRONG_RELAY),
        ({"bind_before_unix_s": 1_000}, TicketCode.EXPIRED),
        ({"member_key": b"k" * 32}, TicketCode.WRONG_MEMBER),
        ({"permits": ()}, TicketCode.MALFORMED),
        ({"permits": (EdgePermit(Edge(0, 1), 0), EdgePermit(Edge(1, 2), 0))}, TicketCode.MALFORMED),
        ({"permits": (EdgePermit(Edge(1, 0), LIMITS.granted_max_bytes),)}, RelayCode.MEMBER_FULL),
    ],
)
def test_tickets_that_do_not_bind(swarm: Swarm, changes: dict[str, object], code: str) -> None:
    assert bind_code(swarm, "head", **changes) == code
    assert swarm.flow.counts.binds_refused == 1
    assert swarm.flow.sessions == 0


def test_a_stolen_ticket_does_not_bind(swarm: Swarm) -> None:
    assert bind_code(swarm, "tail") == TicketCode.WRONG_MEMBER


def test_a_ticket_is_spent_once_its_member_has_left(swarm: Swarm) -> None:
    ticket = swarm.ticket("head", 0)
    binding = Binding(ticket.key, 0)
    assert swarm.bind("head", ticket) == [Bound(binding)]
    swarm.members["head"].unbind(binding)
    (event,) = swarm.bind("head", ticket)
    assert isinstance(event, BindRefused)
    assert event.code == TicketCode.SPENT
    swarm.now = swarm.now._replace(unix_s=float(ticket.bind_before_unix_s))
    (event,) = swarm.bind("head", ticket)
    assert isinstance(event, BindRefused)
    assert event.code == TicketCode.EXPIRED


def test_a_place_is_not_taken_by_another_key(swarm: Swarm) -> None:
    swarm.bind_route()
    (event,) = swarm.bind("tail", swarm.ticket("tail", 0))
    assert isinstance(event, BindRefused)
    assert event.code == "session_exists"


def test_the_same_key_takes_its_place_over_on_a_new_connection(swarm: Swarm) -> None:
    swarm.bind_route()
    swarm.send("gateway", a_packet(GATEWAY_STAGE, 0, b"for the old connection"))
    swarm.join("head/2")
    assert swarm.bind("head/2", swarm.ticket("head", 0)) == [Bound(Binding(a_key(), 0))]
    swarm.settle()
    (ended,) = swarm.events("head")
    assert isinstance(ended, SessionEnded)
    assert ended.code == RelayCode.REBOUND
    swarm.send("gateway", a_packet(GATEWAY_STAGE, 0, b"for the new one"))
    swarm.settle()
    assert swarm.payloads("head/2") == [b"for the new one"]
    assert swarm.payloads("head") == []


def test_a_broken_connection_may_come_back_with_its_ticket(swarm: Swarm) -> None:
    swarm.bind_route()
    ticket = swarm.ticket("head", 0, 1)
    swarm.bind("head", ticket)
    swarm.drop("head")
    swarm.join("head/2")
    assert swarm.bind("head/2", ticket) == [Bound(Binding(a_key(1), 0))]


def test_windows_are_granted_within_the_member_s_bound(swarm: Swarm) -> None:
    codes = []
    for number in range(12):
        (event,) = swarm.bind("head", swarm.ticket("head", 0, number))
        codes.append(event.code if isinstance(event, BindRefused) else "bound")
    # A head is granted two windows of 4 KiB and two control windows of 2 KiB: 12 KiB of 64 KiB a session.
    assert codes == ["bound"] * 5 + [RelayCode.MEMBER_FULL] * 7


def test_leaving_frees_what_was_granted(swarm: Swarm) -> None:
    for number in range(20):
        ticket = swarm.ticket("head", 0, number)
        assert swarm.bind("head", ticket) == [Bound(Binding(ticket.key, 0))]
        swarm.members["head"].unbind(Binding(ticket.key, 0))
        swarm.write("head")
    assert swarm.flow.sessions == 0


def test_the_number_of_bindings_is_bounded(swarm: Swarm) -> None:
    codes = []
    for number in range(LIMITS.bindings_max + 1):
        ticket = swarm.ticket("tail", 2, number, permits=(EdgePermit(Edge(2, 1), 0),))
        (event,) = swarm.bind("tail", ticket)
        codes.append(event.code if isinstance(event, BindRefused) else "bound")
    assert codes == ["bound"] * LIMITS.bindings_max + [RelayCode.MEMBER_FULL]


@given(st.lists(st.binary(max_size=80), max_size=6))
def test_no_bytes_raise_or_harm_others(messages: list[bytes]) -> None:
    swarm = a_swarm()
    swarm.bind_route()
    for data in messages:
        swarm.flow.receive(swarm.ids["head"], data, swarm.now)
    swarm.settle()
    swarm.send("tail", a_token(b"event"))
    swarm.settle()
    assert b"event" in swarm.payloads("gateway")
