"""Worker messages to relay packets and back; what does not agree is refused."""

from __future__ import annotations

import pytest

from meshnet.constants import GATEWAY_STAGE, MAX_MESSAGE_BYTES
from meshnet.ids import SessionKey
from meshnet.packets import Packet, PacketKind
from meshnet.v1 import frame_pb2, session_pb2, worker_pb2
from node_app.sessions.bridging import PayloadError, message_from_packet, packet_from_message

KEY = SessionKey(b"s" * 16, 1)
FRAME = frame_pb2.Frame(session=KEY.session, epoch=1, from_stage=0, to_stage=1, seq=3)


def edge(from_stage: int, to_stage: int, **body: object) -> session_pb2.EdgeMessage:
    return session_pb2.EdgeMessage(
        session=KEY.session,
        epoch=1,
        from_stage=from_stage,
        to_stage=to_stage,
        **body,  # type: ignore[arg-type]
    )


ACK = edge(GATEWAY_STAGE, 0, ack=session_pb2.Ack(seq=2))
TOKEN = edge(0, GATEWAY_STAGE, token=session_pb2.TokenEvent(index=1))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (worker_pb2.BridgeMessage(frame=FRAME), (0, 1, PacketKind.FRAME)),
        (worker_pb2.BridgeMessage(edge=TOKEN), (0, GATEWAY_STAGE, PacketKind.TOKEN)),
        (worker_pb2.BridgeMessage(edge=ACK), (0, GATEWAY_STAGE, PacketKind.CONTROL)),
    ],
)
def test_a_packet_names_its_sender_first(
    message: worker_pb2.BridgeMessage, expected: tuple[int, int, PacketKind]
) -> None:
    packet = packet_from_message(message, own_stage=0)
    assert (packet.from_stage, packet.to_stage, packet.kind) == expected
    assert message_from_packet(packet) == message


def test_an_ack_from_the_gateway_comes_against_the_tokens_edge() -> None:
    ack = edge(0, GATEWAY_STAGE, ack=session_pb2.Ack(seq=4))
    packet = Packet(KEY, GATEWAY_STAGE, 0, PacketKind.CONTROL, ack.SerializeToString())
    assert message_from_packet(packet).edge == ack


@pytest.mark.parametrize(
    "packet",
    [
        Packet(KEY, 0, 1, PacketKind.FRAME, b"\xff\xff"),
        Packet(KEY, 0, 1, PacketKind.CONTROL, b"\xff\xff"),
        Packet(KEY, 0, 1, PacketKind.FRAME, bytes(MAX_MESSAGE_BYTES + 1)),
        Packet(KEY, 1, 0, PacketKind.FRAME, FRAME.SerializeToString()),
        Packet(KEY, 0, 2, PacketKind.FRAME, FRAME.SerializeToString()),
        Packet(SessionKey(KEY.session, 2), 0, 1, PacketKind.FRAME, FRAME.SerializeToString()),
        Packet(SessionKey(b"t" * 16, 1), 0, 1, PacketKind.FRAME, FRAME.SerializeToString()),
        Packet(KEY, 0, 1, PacketKind.CONTROL, ACK.SerializeToString()),
    ],
)
def test_a_payload_that_does_not_agree_with_its_packet_is_refused(packet: Packet) -> None:
    with pytest.raises(PayloadError):
        message_from_packet(packet)
