"""Forwarding: what reaches whom, and what it costs to break the terms."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshnet.constants import GATEWAY_STAGE
from meshnet.ids import Edge
from meshnet.member_events import (
    Binding,
    Bound,
    Closed,
    MemberState,
    PacketRefused,
    PacketsReceived,
    RelayCode,
    SessionEnded,
    StageLost,
)
from meshnet.packets import PACKET_HELD_BYTES, PacketKind, write_batch
from meshnet.tickets import EdgePermit
from meshnet.v1 import relay_pb2
from tests.unit.tracker_site.relay.swarm import LIMITS, WINDOW_BYTES, Swarm, a_key, a_packet, a_swarm, a_token

FULL_PAYLOAD = b"x" * (WINDOW_BYTES - PACKET_HELD_BYTES)


@pytest.fixture
def swarm() -> Swarm:
    swarm = a_swarm()
    swarm.bind_route()
    return swarm


def inject(swarm: Swarm, name: str, *packets: object) -> None:
    """Send packets that an honest member would not let through."""
    batch = relay_pb2.MemberMessage(packets=write_batch(packets))  # type: ignore[arg-type]
    swarm.flow.receive(swarm.ids[name], batch.SerializeToString(), swarm.now)


def ended_with(swarm: Swarm, name: str) -> list[str]:
    return [event.code for event in swarm.events(name) if isinstance(event, SessionEnded)]


# --- what reaches whom ---


def test_a_packet_reaches_its_receiver_and_nobody_else(swarm: Swarm) -> None:
    swarm.send("head", a_packet(0, 1, b"rows"))
    swarm.settle()
    assert swarm.events("tail") == [PacketsReceived((a_packet(0, 1, b"rows"),))]
    assert (swarm.events("gateway"), swarm.events("head")) == ([], [])


def test_order_is_kept_whatever_the_kinds(swarm: Swarm) -> None:
    kinds = [PacketKind.TOKEN, PacketKind.CONTROL, PacketKind.TOKEN, PacketKind.TOKEN, PacketKind.CONTROL]
    packets = [a_packet(1, GATEWAY_STAGE, bytes([number]), kind=kind) for number, kind in enumerate(kinds)]
    swarm.send("tail", *packets[:2])
    swarm.send("tail", *packets[2:])
    swarm.settle()
    assert swarm.payloads("gateway") == [bytes([number]) for number in range(5)]


def test_what_waits_for_one_member_shares_messages(swarm: Swarm) -> None:
    swarm.send("tail", *[a_token(bytes([number])) for number in range(5)])
    assert swarm.flow.take(swarm.ids["gateway"]) is not None
    assert swarm.flow.take(swarm.ids["gateway"]) is None


def test_sessions_take_turns(swarm: Swarm) -> None:
    swarm.bind_route(1)
    swarm.send("head", *[a_packet(0, 1, b"bulk%d" % number) for number in range(3)])
    swarm.send("head", a_packet(0, 1, b"decode", number=1))
    swarm.settle()
    assert swarm.payloads("tail") == [b"bulk0", b"decode", b"bulk1", b"bulk2"]


@pytest.mark.parametrize(
    ("name", "from_stage", "to_stage"),
    [("gateway", GATEWAY_STAGE, 0), ("head", 0, GATEWAY_STAGE), ("head", 0, 1), ("tail", 1, 0)],
)
def test_control_goes_both_ways_along_a_permitted_edge(swarm: Swarm, name: str, from_stage: int, to_stage: int) -> None:
    swarm.send(name, a_packet(from_stage, to_stage, b"ack", kind=PacketKind.CONTROL))
    swarm.settle()
    receiver = {GATEWAY_STAGE: "gateway", 0: "head", 1: "tail"}[to_stage]
    assert swarm.payloads(receiver) == [b"ack"]


@pytest.mark.parametrize(
    ("name", "packet"),
    [
        ("head", a_token(from_stage=0)),  # only the tail emits token events
        ("head", a_packet(0, GATEWAY_STAGE)),  # no frames to the Gateway
        ("tail", a_packet(1, 0, kind=PacketKind.TOKEN)),
        ("tail", a_packet(1, 2)),
        ("gateway", a_packet(GATEWAY_STAGE, 1)),  # prompts go to the head
        ("head", a_packet(0, 5, kind=PacketKind.CONTROL)),
    ],
)
def test_a_forbidden_edge_costs_the_connection(swarm: Swarm, name: str, packet: object) -> None:
    inject(swarm, name, packet)
    swarm.settle()
    closed = [event for event in swarm.events(name) if isinstance(event, Closed)]
    assert [event.code for event in closed] == ["edge_not_permitted"]
    others = {"gateway", "head", "tail"} - {name}
    for other in others:
        assert swarm.members[other].state is MemberState.READY


def test_nobody_speaks_for_another_stage(swarm: Swarm) -> None:
    inject(swarm, "head", a_token(b"forged", from_stage=1))
    swarm.settle()
    assert swarm.payloads("gateway") == []
    assert swarm.events("head") == [
        SessionEnded(a_key(), 1, "unknown_session", "Unknown session: the packet was dropped.")
    ]


def test_nothing_is_stored_for_the_absent() -> None:
    swarm = a_swarm()
    for name, stage in (("gateway", GATEWAY_STAGE), ("head", 0)):
        swarm.bind(name, swarm.ticket(name, stage))
    swarm.send("head", a_packet(0, 1), a_packet(0, 1))
    swarm.send("head", a_packet(0, 1))
    swarm.settle()
    (refused,) = swarm.events("head")
    assert isinstance(refused, PacketRefused)
    assert (refused.to_stage, refused.code) == (1, "stage_lost")
    assert swarm.flow.counts.packets_refused == 3
    assert swarm.bind("tail", swarm.ticket("tail", 1)) == [Bound(Binding(a_key(), 1))]
    assert swarm.payloads("tail") == []


def test_a_stranger_s_packet_is_answered_and_dropped(swarm: Swarm) -> None:
    swarm.join("stranger")
    inject(swarm, "stranger", a_packet(0, 1, b"mischief"))
    swarm.settle()
    assert swarm.payloads("tail") == []
    assert swarm.members["stranger"].state is MemberState.READY
    assert swarm.flow.counts.packets_refused == 1


# --- leaving ---


def test_a_broken_connection_is_told_at_once_behind_its_last_packets(swarm: Swarm) -> None:
    swarm.send("tail", a_token(b"last"))
    swarm.drop("tail")
    swarm.settle()
    received, lost = swarm.events("gateway")
    assert isinstance(received, PacketsReceived)
    assert lost == StageLost(a_key(), 1)
    assert swarm.events("head") == [StageLost(a_key(), 1)]


def test_leaving_in_good_order_is_not_a_loss(swarm: Swarm) -> None:
    swarm.members["tail"].unbind(Binding(a_key(), 1))
    swarm.settle()
    assert (swarm.events("gateway"), swarm.events("head")) == ([], [])
    swarm.send("head", a_packet(0, 1))
    swarm.settle()
    assert [type(event) for event in swarm.events("head")] == [PacketRefused]


def test_a_member_without_a_lane_to_the_lost_one_is_told_too() -> None:
    swarm = a_swarm()
    swarm.bind("gateway", swarm.ticket("gateway", GATEWAY_STAGE))
    swarm.bind("tail", swarm.ticket("tail", 2, permits=(EdgePermit(Edge(2, 1), 0),)))
    swarm.drop("tail")
    swarm.settle()
    assert swarm.events("gateway") == [StageLost(a_key(), 2)]


def test_everybody_gone_leaves_nothing(swarm: Swarm) -> None:
    swarm.send("head", a_packet(0, 1))
    for name in ("gateway", "head", "tail"):
        swarm.drop(name)
    assert (swarm.flow.members, swarm.flow.sessions) == (0, 0)


# --- terms ---


def test_a_full_window_passes_and_one_byte_more_ends_that_session_alone(swarm: Swarm) -> None:
    swarm.bind_route(1)
    limit = WINDOW_BYTES + LIMITS.control_window_bytes - PACKET_HELD_BYTES
    swarm.send("head", a_packet(0, 1, b"x" * limit))
    swarm.settle()
    assert [len(payload) for payload in swarm.payloads("tail")] == [limit]
    swarm.send("head", a_packet(0, 1, b"x" * (limit + 1)))
    swarm.settle()
    for name in ("gateway", "head", "tail"):
        (ended,) = swarm.events(name)
        assert isinstance(ended, SessionEnded)
        assert (ended.key, ended.stage, ended.code) == (a_key(), 1, "window_exceeded")
    swarm.send("head", a_packet(0, 1, b"other session", number=1))
    swarm.settle()
    assert swarm.payloads("tail") == [b"other session"]


def test_small_packets_count_what_they_really_hold(swarm: Swarm) -> None:
    fitting = (WINDOW_BYTES + LIMITS.control_window_bytes) // (PACKET_HELD_BYTES + 1)
    swarm.send("head", *[a_packet(0, 1, b"x") for _ in range(fitting)])
    assert swarm.flow.counts.sessions_ended == 0
    swarm.send("head", a_packet(0, 1, b"x"))
    assert swarm.flow.counts.sessions_ended == 1


def test_reading_frees_the_window(swarm: Swarm) -> None:
    for _ in range(10):
        swarm.send("head", a_packet(0, 1, FULL_PAYLOAD))
        swarm.read("tail")
    assert swarm.flow.counts.sessions_ended == 0
    assert len(swarm.payloads("tail")) == 10


def test_the_tickets_of_an_ended_session_are_spent(swarm: Swarm) -> None:
    ticket = swarm.ticket("head", 0, 1)
    swarm.bind("head", ticket)
    swarm.bind("tail", swarm.ticket("tail", 1, 1))
    for _ in range(3):
        swarm.send("head", a_packet(0, 1, FULL_PAYLOAD, number=1))
        swarm.read("head")
        if swarm.flow.counts.sessions_ended:
            break
    swarm.settle()
    swarm.events("head")
    (event,) = swarm.bind("head", ticket)
    assert event.code == "ticket_spent"  # type: ignore[union-attr]


def test_the_total_is_capped() -> None:
    swarm = a_swarm()
    swarm.bind("head", replace(swarm.ticket("head", 0), bytes_max=100))
    swarm.bind("tail", swarm.ticket("tail", 1))
    swarm.send("head", a_packet(0, 1, b"x" * 60))
    swarm.settle()
    assert len(swarm.payloads("tail")) == 1
    swarm.send("head", a_packet(0, 1, b"x" * 41))
    swarm.settle()
    assert ended_with(swarm, "tail") == [RelayCode.BYTES_EXCEEDED]


def test_the_rate_is_capped_and_refills_with_time() -> None:
    swarm = a_swarm()
    swarm.bind("head", replace(swarm.ticket("head", 0), bytes_per_s=1000))
    swarm.bind("tail", swarm.ticket("tail", 1))
    swarm.send("head", a_packet(0, 1, b"x" * 1000))
    swarm.read("tail")
    swarm.now = swarm.now._replace(monotonic_s=swarm.now.monotonic_s + 0.5)
    swarm.send("head", a_packet(0, 1, b"x" * 500))
    swarm.settle()
    assert len(swarm.payloads("tail")) == 2
    swarm.send("head", a_packet(0, 1, b"x"))
    swarm.settle()
    assert ended_with(swarm, "tail") == [RelayCode.RATE_EXCEEDED]


def test_packets_behind_the_one_that_ends_a_session_are_strays(swarm: Swarm) -> None:
    swarm.send("head", *[a_packet(0, 1, FULL_PAYLOAD) for _ in range(4)])
    assert swarm.flow.counts.sessions_ended == 1
    assert swarm.flow.counts.packets_refused == 2
    assert swarm.members["head"].state is MemberState.READY


# --- bounds ---


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from([(0, 1), (1, 0), (1, GATEWAY_STAGE)]),
            st.integers(1, 4000),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_a_member_who_reads_nothing_never_holds_more_than_was_granted(
    sends: list[tuple[int, tuple[int, int], int, bool]],
) -> None:
    swarm = a_swarm()
    for number in range(3):
        swarm.bind_route(number)
    for number, (from_stage, to_stage), size, is_control in sends:
        kind = PacketKind.TOKEN if to_stage == GATEWAY_STAGE else PacketKind.FRAME
        kind = PacketKind.CONTROL if is_control else kind
        packet = a_packet(from_stage, to_stage, b"x" * size, kind=kind, number=number)
        inject(swarm, "tail" if from_stage == 1 else "head", packet)
    waiting = dict.fromkeys(swarm.ids, 0)
    for name, member_id in swarm.ids.items():
        while (data := swarm.flow.take(member_id)) is not None:
            waiting[name] += len(data)
    assert all(size <= LIMITS.granted_max_bytes + LIMITS.answers_max * 256 for size in waiting.values())
    assert swarm.flow.counts.members_dismissed == 0
