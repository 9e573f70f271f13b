"""Addressed payloads that members of a session exchange through the relay, several to a message.

Invariants: pure. A packet that `read_packet` returns names a session, two different stages and a known kind, and its
payload is not empty; the payload is not parsed here. A batch exceeds the message limit only if its one packet does.
Source: relay.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from meshnet.constants import SESSION_ID_BYTES
from meshnet.failure_codes import FailureCode
from meshnet.frame.refusal import require
from meshnet.ids import SessionKey, is_stage
from meshnet.v1 import relay_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Most bytes that a packet takes in a message besides its payload: 16 session bytes, varints, tags and lengths.
PACKET_OVERHEAD_BYTES: Final = 64

# Bytes that a packet takes in a queue besides its payload, for the objects that hold it. They count against windows;
# otherwise a window of megabytes, filled with packets of one byte, would take gigabytes.
PACKET_HELD_BYTES: Final = 256


class PacketKind(IntEnum):
    """The kind of a packet's payload. The relay checks the kind against the ticket without parsing the payload."""

    FRAME = 1
    CONTROL = 2  # an edge message that is not a token event
    TOKEN = 3  # a token event, from the tail to the Gateway


@dataclass(frozen=True, slots=True)
class Packet:
    """A payload from one stage of a session to another. `from_stage` sends it, even if it is an ack of a frame."""

    key: SessionKey
    from_stage: int
    to_stage: int
    kind: PacketKind
    payload: bytes

    @property
    def size_bytes(self) -> int:
        """Upper bound of the bytes that the packet takes in a relay message."""
        return len(self.payload) + PACKET_OVERHEAD_BYTES

    @property
    def held_bytes(self) -> int:
        """Bytes that the packet takes while it waits in a queue."""
        return len(self.payload) + PACKET_HELD_BYTES


def read_packet(message: relay_pb2.Packet) -> Packet:
    """Return a protobuf packet as a checked `Packet`.

    Raises:
        MessageError: `malformed`; its `address` is None, because the sender is distrusted in all of its sessions.
    """
    key = read_session_key(message.session, message.epoch)
    stages = is_stage(message.from_stage) and is_stage(message.to_stage) and message.from_stage != message.to_stage
    require(stages, FailureCode.MALFORMED, "a packet does not name two different stages", None)
    require(int(message.kind) in set(PacketKind), FailureCode.MALFORMED, "a packet's kind is unknown", None)
    require(bool(message.payload), FailureCode.MALFORMED, "a packet is empty", None)
    return Packet(key, message.from_stage, message.to_stage, PacketKind(message.kind), message.payload)


def read_session_key(session: bytes, epoch: int) -> SessionKey:
    """Return the key made of the two fields that name a session in a relay message.

    Raises:
        MessageError: `malformed` if the id does not have 16 bytes or the epoch is 0; its `address` is None.
    """
    named = len(session) == SESSION_ID_BYTES and epoch >= 1
    require(named, FailureCode.MALFORMED, "a session needs an id of 16 bytes and an epoch from 1", None)
    return SessionKey(session, epoch)


def write_batch(packets: Iterable[Packet]) -> relay_pb2.PacketBatch:
    """Build the message that holds the packets, in order."""
    return relay_pb2.PacketBatch(
        packets=[
            relay_pb2.Packet(
                session=packet.key.session,
                epoch=packet.key.epoch,
                from_stage=packet.from_stage,
                to_stage=packet.to_stage,
                kind=relay_pb2.PacketKind.Name(packet.kind),
                payload=packet.payload,
            )
            for packet in packets
        ]
    )


def split_batches(packets: Iterable[Packet], limit_bytes: int) -> Iterator[list[Packet]]:
    """Split packets into batches whose messages have at most `limit_bytes`; order is kept.

    A packet that is larger than the limit gets a batch of its own, which the receiver refuses.
    """
    batch: list[Packet] = []
    batch_bytes = 0
    for packet in packets:
        if batch and batch_bytes + packet.size_bytes > limit_bytes:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(packet)
        batch_bytes += packet.size_bytes
    if batch:
        yield batch
