"""Converts events of the relay into inputs of a route's machine, and the machine's frames and messages into packets.

Invariants: pure; if a payload does not decode or does not match its packet's kind, the stage that sent it is at fault,
and the session fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE
from meshnet.failure_codes import FailureCode
from meshnet.frame import MessageError, TokenEvent, parse_edge_message, serialise_edge_message, serialise_frame
from meshnet.member_events import (
    BindRefused,
    Bound,
    Closed,
    PacketRefused,
    PacketsReceived,
    SessionEnded,
    StageLost,
)
from meshnet.packets import Packet, PacketKind
from tracker_site.routes.session import machine_io as io

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.ids import SessionKey
    from meshnet.member_events import MemberEvent
    from tracker_site.routes.session.machine_io import RouteInput


def read_relay_event(key: SessionKey, event: MemberEvent) -> Iterator[RouteInput]:
    """Yield the machine's inputs for one event of the relay: one input, or one for each received packet."""
    match event:
        case Bound():
            yield io.RelayBound(key.epoch)
        case BindRefused(_, code, message) | Closed(code, message):
            yield io.RelayFailed(key.epoch, code, message)
        case SessionEnded(_, stage, code, message):
            yield io.RelayFailed(key.epoch, code, message, None if stage == GATEWAY_STAGE else stage)
        case StageLost(_, stage):
            yield _stage_gone(key, stage, "The stage's data connection is gone.")
        case PacketRefused(_, stage):
            yield _stage_gone(key, stage, "The stage is not on the relay.")
        case PacketsReceived(packets):
            for packet in packets:
                yield _read_packet(packet)


def frame_packet(action: io.SendFrame) -> Packet:
    """Return the packet that carries a frame to the head."""
    frame = action.frame
    return Packet(frame.key, GATEWAY_STAGE, frame.to_stage, PacketKind.FRAME, serialise_frame(frame))


def message_packet(action: io.SendMessage) -> Packet:
    """Return the packet that carries a message to a stage."""
    payload = serialise_edge_message(action.message)
    return Packet(action.message.key, GATEWAY_STAGE, action.to_stage, PacketKind.CONTROL, payload)


def _stage_gone(key: SessionKey, stage: int, message: str) -> RouteInput:
    return io.StageGone(key.epoch, stage, FailureCode.STAGE_LOST, message)


def _read_packet(packet: Packet) -> RouteInput:
    try:
        message = parse_edge_message(packet.payload)
    except MessageError as error:
        return io.StageGone(packet.key.epoch, packet.from_stage, error.code, error.message)
    # The relay lets only the tail send packets of the token kind; a token in another kind would evade that check.
    if isinstance(message.body, TokenEvent) != (packet.kind is PacketKind.TOKEN):
        text = "The packet's payload is not of the packet's kind."
        return io.StageGone(packet.key.epoch, packet.from_stage, FailureCode.MALFORMED, text)
    return io.Received(packet.from_stage, message)
