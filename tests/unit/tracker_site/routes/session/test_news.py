"""What the relay says, as inputs of the machine; and what the registry says, as offers."""

from __future__ import annotations

import pytest

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import (
    Ack,
    Frame,
    Phase,
    PrefillProgress,
    StageFailure,
    parse_edge_message,
    parse_frame,
    serialise_edge_message,
)
from meshnet.ids import SessionKey
from meshnet.member_events import (
    Binding,
    BindRefused,
    Bound,
    Closed,
    MemberEvent,
    PacketRefused,
    PacketsReceived,
    SessionEnded,
    StageLost,
)
from meshnet.packets import Packet, PacketKind
from tests.unit.tracker_site.routes.route_kit import SESSION, a_token, from_stage
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.news import frame_packet, message_packet, read_relay_event

KEY = SessionKey(SESSION, 1)
PLACE = Binding(KEY, GATEWAY_STAGE)


def read(event: MemberEvent) -> list[io.RouteInput]:
    return list(read_relay_event(KEY, event))


def packet(given: io.Received, kind: PacketKind) -> Packet:
    return Packet(KEY, given.sender, GATEWAY_STAGE, kind, serialise_edge_message(given.message))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Bound(PLACE), io.RelayBound(1)),
        (BindRefused(PLACE, "ticket_expired", "late"), io.RelayFailed(1, "ticket_expired", "late")),
        (Closed("connection_lost", "gone"), io.RelayFailed(1, "connection_lost", "gone")),
        (SessionEnded(KEY, 2, "window_exceeded", "full"), io.RelayFailed(1, "window_exceeded", "full", 2)),
        (SessionEnded(KEY, GATEWAY_STAGE, "rate_exceeded", "fast"), io.RelayFailed(1, "rate_exceeded", "fast", None)),
    ],
)
def test_relay_events_become_inputs(event: MemberEvent, expected: io.RouteInput) -> None:
    assert read(event) == [expected]


@pytest.mark.parametrize("event", [StageLost(KEY, 3), PacketRefused(KEY, 3, "stage_lost", "absent")])
def test_an_absent_stage_is_a_lost_one(event: MemberEvent) -> None:
    (given,) = read(event)
    assert isinstance(given, io.StageGone)
    assert (given.stage, given.code) == (3, "stage_lost")


def test_packets_are_read_in_order() -> None:
    sent = [from_stage(1, PrefillProgress(5)), from_stage(1, a_token(0)), from_stage(0, Ack(1))]
    kinds = [PacketKind.CONTROL, PacketKind.TOKEN, PacketKind.CONTROL]
    packets = tuple(packet(given, kind) for given, kind in zip(sent, kinds, strict=True))
    assert read(PacketsReceived(packets)) == sent


@pytest.mark.parametrize("payload", [b"\xff", b"garbage", b"\0" * 100])
def test_a_payload_that_does_not_decode_is_its_sender_s_fault(payload: bytes) -> None:
    (given,) = read(PacketsReceived((Packet(KEY, 1, GATEWAY_STAGE, PacketKind.CONTROL, payload),)))
    assert isinstance(given, io.StageGone)
    assert (given.stage, given.code) == (1, "malformed")


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (from_stage(0, a_token(0)), PacketKind.CONTROL),  # round the relay's rule that only the tail sends tokens
        (from_stage(1, StageFailure("idle", "x", 1)), PacketKind.TOKEN),
        (from_stage(1, PrefillProgress(1)), PacketKind.FRAME),
    ],
)
def test_a_payload_that_its_kind_belies_is_refused(given: io.Received, kind: PacketKind) -> None:
    inputs = read(PacketsReceived((packet(given, kind),)))
    if kind is PacketKind.FRAME:
        # The relay lets no frame through to the Gateway; here it is read as what it is.
        assert inputs == [given]
        return
    (refused,) = inputs
    assert isinstance(refused, io.StageGone)
    assert (refused.stage, refused.code) == (given.sender, "malformed")


def test_what_is_sent_is_addressed_to_its_stage() -> None:
    frame = Frame(SESSION, 1, GATEWAY_STAGE, 0, 0, Phase.PREFILL, 0, 2, token_ids=(1, 2))
    sent = frame_packet(io.SendFrame(frame))
    assert (sent.key, sent.from_stage, sent.to_stage, sent.kind) == (KEY, GATEWAY_STAGE, 0, PacketKind.FRAME)
    assert parse_frame(sent.payload) == frame
    ack = from_stage(0, Ack(3)).message
    control = message_packet(io.SendMessage(1, ack))
    assert (control.from_stage, control.to_stage, control.kind) == (GATEWAY_STAGE, 1, PacketKind.CONTROL)
    assert parse_edge_message(control.payload) == ack
