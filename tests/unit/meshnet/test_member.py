"""The relay member: every input in every state, and what a binding goes through."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.constants import GATEWAY_STAGE, MAX_MESSAGE_BYTES
from meshnet.errors import ProtocolError
from meshnet.ids import SessionKey
from meshnet.keys import SignatureContext, SigningKey, relay_proof_message, verify
from meshnet.member import RelayMember
from meshnet.member_events import (
    SESSION_ENDING_CODES,
    TRANSITIONS,
    Action,
    Binding,
    BindRefused,
    Bound,
    Closed,
    Input,
    MemberState,
    PacketRefused,
    PacketsReceived,
    Ready,
    SessionEnded,
    StageLost,
)
from meshnet.packets import Packet, PacketKind, write_batch
from meshnet.v1 import relay_pb2

KEY = SessionKey(b"k" * 16, 1)
OTHER_KEY = SessionKey(b"o" * 16, 1)
BINDING = Binding(KEY, 0)
NONCE = b"n" * 32
SIGNING_KEY = SigningKey.from_bytes(b"m" * 32)


def a_packet(key: SessionKey = KEY, *, from_stage: int = GATEWAY_STAGE, to_stage: int = 0, size: int = 5) -> Packet:
    return Packet(key, from_stage, to_stage, PacketKind.FRAME, b"p" * size)


def a_refusal(stage: int, code: str, key: SessionKey = KEY) -> bytes:
    refusal = relay_pb2.RelayRefusal(session=key.session, epoch=key.epoch, stage=stage, code=code, message="m")
    return relay_pb2.RelayMessage(refusal=refusal).SerializeToString()


def a_message(kind: Input) -> bytes:
    address = {"session": KEY.session, "epoch": KEY.epoch}
    bodies = {
        Input.CHALLENGE: {"challenge": {"relay_id": "relay-1", "nonce": NONCE}},
        Input.WELCOME: {"welcome": {"message_max_bytes": 4096, "keepalive_ms": 1000}},
        Input.BOUND: {"bound": {**address, "stage": 0}},
        Input.REFUSAL: {"refusal": {**address, "stage": 0, "code": "c", "message": "m"}},
        Input.DISMISSAL: {"refusal": {"code": "too_slow", "message": "m", "fatal": True}},
        Input.LOST: {"lost": {**address, "stage": 1}},
        Input.PACKETS: {"packets": write_batch([a_packet()])},
    }
    return relay_pb2.RelayMessage(**bodies[kind]).SerializeToString()  # type: ignore[arg-type]  # dicts are messages


def a_member(state: MemberState) -> RelayMember:
    member = RelayMember(SIGNING_KEY)
    if state is MemberState.CLOSED:
        member.connection_lost()
    elif state is not MemberState.AWAITING_CHALLENGE:
        member.receive(a_message(Input.CHALLENGE))
        if state is MemberState.READY:
            member.receive(a_message(Input.WELCOME))
    member.events()
    member.data_to_send()
    assert member.state is state
    return member


def a_bound_member() -> RelayMember:
    member = a_member(MemberState.READY)
    member.bind(BINDING, b"ticket")
    member.receive(a_message(Input.BOUND))
    assert member.events() == [Bound(BINDING)]
    member.data_to_send()
    return member


def sent(member: RelayMember) -> list[relay_pb2.MemberMessage]:
    return [relay_pb2.MemberMessage.FromString(data) for data in member.data_to_send()]


# --- the table ---


def test_every_state_and_input_has_a_cell() -> None:
    assert set(TRANSITIONS) == set(product(MemberState, Input))


@pytest.mark.parametrize(("state", "kind"), list(product(MemberState, Input)))
def test_each_cell_does_what_the_table_says(state: MemberState, kind: Input) -> None:
    member = a_member(state)
    member.receive(a_message(kind))
    events, messages = member.events(), sent(member)
    match TRANSITIONS[state, kind]:
        case Action.IGNORE:
            assert (member.state, events, messages) == (MemberState.CLOSED, [], [])
        case Action.REJECT:
            assert member.state is MemberState.CLOSED
            assert [type(event) for event in events] == [Closed]
            assert events[0].code == "malformed"  # type: ignore[union-attr]
            assert messages == []
        case Action.DISMISS:
            assert (member.state, events) == (MemberState.CLOSED, [Closed("too_slow", "m")])
        case Action.PROVE:
            assert (member.state, len(messages)) == (MemberState.AWAITING_WELCOME, 1)
        case Action.OPEN:
            assert (member.state, events) == (MemberState.READY, [Ready("relay-1", 4096, 1000)])
        case Action.CONFIRM | Action.REFUSE | Action.LOSE | Action.DELIVER:
            # Without a binding these are about nobody here.
            assert (member.state, events, messages) == (MemberState.READY, [], [])


@pytest.mark.parametrize("state", list(MemberState))
@pytest.mark.parametrize("data", [b"", b"\xff\xff", b"\0" * (MAX_MESSAGE_BYTES + 1)])
def test_undecodable_bytes_close_in_every_state(state: MemberState, data: bytes) -> None:
    member = a_member(state)
    member.receive(data)
    assert member.state is MemberState.CLOSED
    assert len(member.events()) == (0 if state is MemberState.CLOSED else 1)


# --- the way in ---


def test_the_proof_signs_relay_and_nonce_for_this_purpose() -> None:
    member = RelayMember(SIGNING_KEY)
    member.receive(a_message(Input.CHALLENGE))
    (message,) = sent(member)
    signed = relay_proof_message("relay-1", NONCE)
    assert message.proof.public_key == SIGNING_KEY.public_key
    assert verify(SIGNING_KEY.public_key, SignatureContext.RELAY, signed, message.proof.signature)


@pytest.mark.parametrize("nonce", [b"", b"n" * 31, b"n" * 33])
def test_a_nonce_of_another_length_is_not_signed(nonce: bytes) -> None:
    member = RelayMember(SIGNING_KEY)
    challenge = relay_pb2.RelayChallenge(relay_id="relay-1", nonce=nonce)
    member.receive(relay_pb2.RelayMessage(challenge=challenge).SerializeToString())
    assert (member.state, member.data_to_send()) == (MemberState.CLOSED, [])


@pytest.mark.parametrize("state", [state for state in MemberState if state is not MemberState.READY])
def test_commands_need_an_open_connection(state: MemberState) -> None:
    member = a_member(state)
    with pytest.raises(ProtocolError) as caught:
        member.bind(BINDING, b"ticket")
    assert caught.value.code == "relay_unavailable"
    with pytest.raises(ProtocolError):
        member.send([a_packet(from_stage=0, to_stage=1)])
    member.unbind(BINDING)
    assert member.data_to_send() == []


# --- bindings ---


def test_a_binding_is_asked_for_and_confirmed() -> None:
    member = a_member(MemberState.READY)
    member.bind(BINDING, b"ticket")
    assert [message.bind.signed_ticket for message in sent(member)] == [b"ticket"]
    assert not member.is_bound(BINDING)
    member.receive(a_message(Input.BOUND))
    assert member.events() == [Bound(BINDING)]
    assert member.is_bound(BINDING)
    member.receive(a_message(Input.BOUND))
    assert member.events() == []


def test_a_binding_is_asked_for_once() -> None:
    member = a_bound_member()
    with pytest.raises(ProtocolError) as caught:
        member.bind(BINDING, b"ticket")
    assert caught.value.code == "session_exists"


def test_a_refused_binding_is_gone_and_may_be_asked_for_again() -> None:
    member = a_member(MemberState.READY)
    member.bind(BINDING, b"ticket")
    member.receive(a_refusal(0, "ticket_expired"))
    assert member.events() == [BindRefused(BINDING, "ticket_expired", "m")]
    assert member.bindings == frozenset()
    member.bind(BINDING, b"another")


def test_an_answer_to_a_binding_that_was_left_is_ignored() -> None:
    member = a_member(MemberState.READY)
    member.bind(BINDING, b"ticket")
    member.unbind(BINDING)
    assert [message.WhichOneof("body") for message in sent(member)] == ["bind", "unbind"]
    member.receive(a_message(Input.BOUND))
    assert (member.events(), member.is_bound(BINDING)) == ([], False)


def test_leaving_twice_says_so_once() -> None:
    member = a_bound_member()
    member.unbind(BINDING)
    member.unbind(BINDING)
    (message,) = sent(member)
    assert (message.unbind.session, message.unbind.epoch, message.unbind.stage) == (KEY.session, 1, 0)


def test_a_dropped_packet_leaves_the_binding() -> None:
    member = a_bound_member()
    member.receive(a_refusal(1, "stage_lost"))
    assert member.events() == [PacketRefused(KEY, 1, "stage_lost", "m")]
    assert member.is_bound(BINDING)


@pytest.mark.parametrize("code", sorted(SESSION_ENDING_CODES))
def test_an_ended_session_takes_all_its_bindings_with_it(code: str) -> None:
    member = a_bound_member()
    second = Binding(KEY, 3)
    member.bind(second, b"ticket")
    kept = Binding(OTHER_KEY, 0)
    member.bind(kept, b"ticket")
    member.receive(a_refusal(1, code))
    assert member.events() == [SessionEnded(KEY, 1, code, "m")]
    assert member.bindings == {kept}


def test_a_refusal_about_a_session_that_was_left_is_ignored() -> None:
    member = a_bound_member()
    member.unbind(BINDING)
    member.receive(a_refusal(1, "stage_lost"))
    assert member.events() == []


def test_a_lost_member_is_reported_to_its_session_alone() -> None:
    member = a_bound_member()
    lost = relay_pb2.MemberLost(session=OTHER_KEY.session, epoch=1, stage=1)
    member.receive(relay_pb2.RelayMessage(lost=lost).SerializeToString())
    assert member.events() == []
    member.receive(a_message(Input.LOST))
    assert member.events() == [StageLost(KEY, 1)]


def test_a_lost_connection_takes_everything_with_it() -> None:
    member = a_bound_member()
    member.send([a_packet(from_stage=0, to_stage=1)])
    member.connection_lost()
    member.connection_lost()
    assert [type(event) for event in member.events()] == [Closed]
    assert (member.bindings, member.data_to_send()) == (frozenset(), [])


@pytest.mark.parametrize("kind", [Input.BOUND, Input.REFUSAL, Input.LOST])
def test_a_session_without_a_name_closes(kind: Input) -> None:
    member = a_bound_member()
    bodies = {
        Input.BOUND: relay_pb2.RelayMessage(bound=relay_pb2.Bound(session=b"short", epoch=1)),
        Input.REFUSAL: relay_pb2.RelayMessage(refusal=relay_pb2.RelayRefusal(code="c")),
        Input.LOST: relay_pb2.RelayMessage(lost=relay_pb2.MemberLost(session=KEY.session)),
    }
    member.receive(bodies[kind].SerializeToString())
    assert member.state is MemberState.CLOSED


# --- packets ---


def test_packets_come_in_order_and_strays_are_counted() -> None:
    member = a_bound_member()
    wanted = [a_packet(size=size) for size in (1, 2, 3)]
    strays = [a_packet(OTHER_KEY), a_packet(to_stage=1)]
    batch = write_batch([wanted[0], strays[0], wanted[1], strays[1], wanted[2]])
    member.receive(relay_pb2.RelayMessage(packets=batch).SerializeToString())
    assert member.events() == [PacketsReceived(tuple(wanted))]
    assert member.stray_packets == 2


def test_nothing_is_sent_for_a_session_that_is_not_bound() -> None:
    member = a_bound_member()
    good = a_packet(from_stage=0, to_stage=1)
    with pytest.raises(ProtocolError) as caught:
        member.send([good, a_packet(OTHER_KEY, from_stage=0, to_stage=1)])
    assert caught.value.code == "unknown_session"
    assert member.data_to_send() == []


def test_neighbouring_packets_share_a_message_and_order_is_kept() -> None:
    member = a_bound_member()
    packets = [a_packet(from_stage=0, to_stage=1, size=size) for size in (1, 2, 3)]
    member.send(packets[:2])
    member.send(packets[2:])
    member.unbind(BINDING)
    first, second = sent(member)
    assert [len(packet.payload) for packet in first.packets.packets] == [1, 2, 3]
    assert second.WhichOneof("body") == "unbind"
    assert member.data_to_send() == []


def test_batches_keep_to_the_relay_s_limit() -> None:
    member = a_bound_member()
    member.send([a_packet(from_stage=0, to_stage=1, size=1500) for _ in range(5)])
    messages = member.data_to_send()
    assert [len(data) <= 4096 for data in messages] == [True, True, True]


@pytest.mark.parametrize(
    "change",
    [
        {"session": b"short"},
        {"epoch": 0},
        {"from_stage": 64},
        {"to_stage": 126},
        {"from_stage": 0},  # to itself
        {"kind": 9},
        {"kind": 0},
        {"payload": b""},
    ],
)
def test_a_packet_that_makes_no_sense_closes(change: dict[str, object]) -> None:
    member = a_bound_member()
    batch = write_batch([a_packet()])
    for name, value in change.items():
        setattr(batch.packets[0], name, value)
    member.receive(relay_pb2.RelayMessage(packets=batch).SerializeToString())
    assert (member.state, [type(event) for event in member.events()]) == (MemberState.CLOSED, [Closed])


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_raise_anything(messages: list[bytes]) -> None:
    member = a_bound_member()
    for data in messages:
        member.receive(data)
    assert member.state in {MemberState.READY, MemberState.CLOSED}
