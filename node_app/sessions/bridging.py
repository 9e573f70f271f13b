"""Carries frames and edge messages between the worker's bridge and the relay connection.

Invariants: payloads are passed on without checking rows (the worker does) or edges (the relay does), but a payload must
decode and name the same session and edge as its packet. Each session has its own limit in the queues, so no session
ever waits for another one. If a session breaks a rule, it alone fails.
Source: docs/wire.md, Credits and Relay.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from meshnet.constants import MAX_MESSAGE_BYTES
from meshnet.failure_codes import FailureCode
from meshnet.ids import SessionKey
from meshnet.packets import Packet, PacketKind
from meshnet.v1 import frame_pb2, session_pb2, worker_pb2
from node_app.relay.packet_queue import QueueResult
from node_app.sessions.meter import RollingRate
from node_app.system.racing import race

if TYPE_CHECKING:
    from collections.abc import Callable

    from node_app.sessions.local.opening import LocalSessions
    from node_app.sessions.stages import OpenStage, StageKeeper
    from node_app.sessions.worker_queue import WorkerQueue
    from node_app.worker.client import Bridge


class PayloadError(ValueError):
    """A packet's payload is too large, does not decode, or names another session or edge than the packet."""


class Bridging:
    """Carries messages between the worker and the sessions, the site's and this machine's own.

    Args:
        to_worker: holds the packets for the worker.
        stages: the site's sessions.
        local: this machine's own sessions.
        send_packet: queues a packet for the relay.
        end_session: ends a session that broke a rule; takes key, code and message.
    """

    def __init__(
        self,
        to_worker: WorkerQueue,
        stages: StageKeeper,
        local: LocalSessions,
        send_packet: Callable[[Packet], QueueResult],
        end_session: Callable[[SessionKey, str, str], None],
    ) -> None:
        self._to_worker = to_worker
        self._stages = stages
        self._local = local
        self._send_packet = send_packet
        self._end_session = end_session
        self._tokens = RollingRate()

    @property
    def tokens_per_s(self) -> float:
        """Token events per second that this node's worker sent, averaged over the last seconds (`meter.WINDOW_S`)."""
        return self._tokens.per_s(time.monotonic())

    async def run(self, bridge: Bridge) -> None:
        """Carry messages both ways until the bridge ends.

        Raises:
            WorkerError: the bridge broke.
        """
        try:
            await race(self._feed_worker(bridge), self._drain_worker(bridge))
        finally:
            bridge.cancel()

    async def _feed_worker(self, bridge: Bridge) -> None:
        while True:
            packets = await self._to_worker.next_batch()
            messages = [message for message in map(self._open, packets) if message is not None]
            if messages:
                await bridge.send(messages)

    def _open(self, packet: Packet) -> worker_pb2.BridgeMessage | None:
        """Return the message in a packet; if there is no valid one, end the packet's session and return None.

        It is invalid if it does not decode or names another session or edge than the packet.
        """
        try:
            return message_from_packet(packet)
        except PayloadError as error:
            self._end_session(packet.key, FailureCode.MALFORMED, str(error))
            return None

    async def _drain_worker(self, bridge: Bridge) -> None:
        async for messages in bridge.batches():
            for message in messages:
                self._forward(message)

    def _forward(self, message: worker_pb2.BridgeMessage) -> None:
        body = message.frame if message.HasField("frame") else message.edge
        key = SessionKey(body.session, body.epoch)
        if message.HasField("edge") and self._local.receive(key, message.edge):
            self._count(message.edge)
        elif (stage := self._stages.find(key)) is not None:
            self._count(message.edge)
            self._forward_to_relay(stage, message)
        # Otherwise the session was closed while its last messages were under way.

    def _count(self, message: session_pb2.EdgeMessage) -> None:
        if message.HasField("token"):
            self._tokens.count(time.monotonic())

    def _forward_to_relay(self, stage: OpenStage, message: worker_pb2.BridgeMessage) -> None:
        if message.edge.HasField("failure"):
            failure = message.edge.failure
            stage.worker_reason = (failure.code, failure.message)
        if self._send_packet(packet_from_message(message, stage.stage)) is QueueResult.OVERFLOW:
            text = "the worker sent more than the relay takes for this session"
            self._end_session(stage.key, FailureCode.WINDOW_EXCEEDED, text)


def packet_from_message(message: worker_pb2.BridgeMessage, own_stage: int) -> Packet:
    """Return the packet that carries a worker's message to the relay.

    An edge message names its edge in the direction of the edge's frames, even an acknowledgement, which goes the other
    way; a packet always names its sender first.
    """
    if message.HasField("frame"):
        frame = message.frame
        key = SessionKey(frame.session, frame.epoch)
        return Packet(key, frame.from_stage, frame.to_stage, PacketKind.FRAME, frame.SerializeToString())
    edge = message.edge
    kind = PacketKind.TOKEN if edge.HasField("token") else PacketKind.CONTROL
    peer = edge.to_stage if edge.from_stage == own_stage else edge.from_stage
    return Packet(SessionKey(edge.session, edge.epoch), own_stage, peer, kind, edge.SerializeToString())


def message_from_packet(packet: Packet) -> worker_pb2.BridgeMessage:
    """Decode a packet's payload and compare its session and edge with the packet's.

    Raises:
        PayloadError: the payload is too large, does not decode, or names another session or edge than the packet.
    """
    if len(packet.payload) > MAX_MESSAGE_BYTES:
        raise PayloadError(f"a payload of {len(packet.payload)} bytes")
    try:
        if packet.kind is PacketKind.FRAME:
            message = worker_pb2.BridgeMessage(frame=frame_pb2.Frame.FromString(packet.payload))
        else:
            message = worker_pb2.BridgeMessage(edge=session_pb2.EdgeMessage.FromString(packet.payload))
    except DecodeError as error:
        raise PayloadError("a payload that does not decode") from error
    body = message.frame if packet.kind is PacketKind.FRAME else message.edge
    ends = (body.from_stage, body.to_stage)
    directions = {(packet.from_stage, packet.to_stage)}
    if packet.kind is not PacketKind.FRAME:
        directions.add((packet.to_stage, packet.from_stage))
    if SessionKey(body.session, body.epoch) != packet.key or ends not in directions:
        raise PayloadError("a payload of another session or edge than its packet")
    return message
