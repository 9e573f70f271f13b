"""Carries frames and edge messages between the worker's bridge and the relay connection.

Invariants: bytes are passed on, not judged (the worker checks rows, the relay checks edges), except that a payload must
decode and say the same session and edge as the packet it came in; queues are bounded by what each session was granted,
so nothing here ever waits for one session on behalf of another. A session that breaks a rule fails alone.
Source: docs/wire.md, Credits and Relay.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from google.protobuf.message import DecodeError

from meshnet.constants import MAX_MESSAGE_BYTES
from meshnet.failure_codes import FailureCode
from meshnet.ids import SessionKey
from meshnet.packets import Packet, PacketKind
from meshnet.v1 import frame_pb2, session_pb2, worker_pb2
from node_app.relay.packet_queue import Offer, PacketQueue
from node_app.system.racing import race

if TYPE_CHECKING:
    from collections.abc import Iterable

    from node_app.sessions.stages import OpenStage
    from node_app.worker.client import Bridge

# One write to the worker; well under gRPC's limit on the channel.
BATCH_BYTES = 1024 * 1024


class BridgeListener(Protocol):
    """What the bridge needs of the agent. Called on the event loop; must not block."""

    def find_stage(self, key: SessionKey) -> OpenStage | None:
        """Return this node's stage in a session."""

    def take_locally(self, key: SessionKey, message: session_pb2.EdgeMessage) -> bool:
        """Take a message of a session that this machine opened for itself; False where it is none."""

    def send_packet(self, packet: Packet) -> Offer:
        """Queue a packet for the relay."""

    def on_token(self) -> None:
        """The worker emitted a token event."""

    def on_worker_failure(self, key: SessionKey, failure: session_pb2.StageFailure) -> None:
        """The worker gave up a session and says why."""

    def on_session_broken(self, key: SessionKey, code: str, message: str) -> None:
        """A session broke a rule and must end."""


class PayloadError(ValueError):
    """A packet's payload does not say what the packet says."""


class Bridging:
    """One worker life's traffic. `run` ends with the bridge."""

    def __init__(self, listener: BridgeListener) -> None:
        self._listener = listener
        self._to_worker = PacketQueue()
        self._has_work = asyncio.Event()

    def admit(self, key: SessionKey, queue_bytes: int) -> None:
        """Let a session's packets through."""
        self._to_worker.admit(key, queue_bytes)

    def drop(self, key: SessionKey) -> None:
        """Forget a session's packets. Idempotent."""
        self._to_worker.drop(key)

    def receive(self, packets: Iterable[Packet]) -> None:
        """Take packets for the worker, from the relay or of this machine's own sessions."""
        for packet in packets:
            if self._to_worker.offer(packet) is Offer.OVERFLOW:
                message = "more in flight than its windows allow"
                self._listener.on_session_broken(packet.key, FailureCode.WINDOW_EXCEEDED, message)
        self._has_work.set()

    async def run(self, bridge: Bridge) -> None:
        """Carry until the bridge ends.

        Raises:
            WorkerError: the bridge broke.
        """
        try:
            await race(self._feed_worker(bridge), self._drain_worker(bridge))
        finally:
            bridge.cancel()

    async def _feed_worker(self, bridge: Bridge) -> None:
        while True:
            self._has_work.clear()
            packets = self._to_worker.take(BATCH_BYTES, lambda _: True)
            messages = [message for message in map(self._open, packets) if message is not None]
            if messages:
                await bridge.send(messages)
            elif not packets:
                await self._has_work.wait()

    def _open(self, packet: Packet) -> worker_pb2.BridgeMessage | None:
        """Decode a packet; None, and its session ends, where it is not what it says."""
        try:
            return message_from_packet(packet)
        except PayloadError as error:
            self._listener.on_session_broken(packet.key, FailureCode.MALFORMED, str(error))
            return None

    async def _drain_worker(self, bridge: Bridge) -> None:
        async for messages in bridge.batches():
            for message in messages:
                self._forward(message)

    def _forward(self, message: worker_pb2.BridgeMessage) -> None:
        body = message.frame if message.HasField("frame") else message.edge
        key = SessionKey(body.session, body.epoch)
        if message.HasField("edge") and self._listener.take_locally(key, message.edge):
            return
        stage = self._listener.find_stage(key)
        if stage is None:
            return  # closed while its last messages were under way
        if message.edge.HasField("token"):
            self._listener.on_token()
        if message.edge.HasField("failure"):
            self._listener.on_worker_failure(key, message.edge.failure)
        if self._listener.send_packet(packet_from_message(message, stage.stage)) is Offer.OVERFLOW:
            text = "the worker sent more than the relay takes for this session"
            self._listener.on_session_broken(key, FailureCode.WINDOW_EXCEEDED, text)


def packet_from_message(message: worker_pb2.BridgeMessage, own_stage: int) -> Packet:
    """Address a worker's message for the relay.

    An edge message names its edge in the frames' direction, so an ack travels against it; a packet always names its
    sender first.
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
    """Decode what a packet carries, and compare addresses.

    Raises:
        PayloadError: too large, undecodable, or of another session or edge than the packet.
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
