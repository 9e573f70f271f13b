"""A queue of packets that wait to be sent, with a limit in bytes for each session.

Invariants: pure. Packets of one session keep their order, and sessions take turns. Only admitted sessions hold packets,
and none holds more than its limit, so the queue holds at most the sum of the limits. If a session overflows, its sender
broke the rules and no other session is affected. Source: docs/wire.md, Credits.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.ids import SessionKey
    from meshnet.packets import Packet


class QueueResult(Enum):
    """The result of offering a packet to the queue."""

    TAKEN = auto()
    STRAY = auto()  # dropped, since its session is not admitted
    OVERFLOW = auto()  # dropped, since its session would hold more than its limit


class PacketQueue:
    """The waiting packets of one direction (to the relay or to the worker), by session. Not thread-safe."""

    def __init__(self) -> None:
        self._packets: dict[SessionKey, deque[Packet]] = {}
        self._limits_bytes: dict[SessionKey, int] = {}
        self._held_bytes: dict[SessionKey, int] = {}
        self.stray_packets = 0

    def __len__(self) -> int:
        return sum(len(packets) for packets in self._packets.values())

    def admit(self, key: SessionKey, limit_bytes: int) -> None:
        """Allow a session to hold packets of up to `limit_bytes` in the queue."""
        self._limits_bytes[key] = limit_bytes
        self._held_bytes.setdefault(key, 0)
        self._packets.setdefault(key, deque())

    def drop(self, key: SessionKey) -> None:
        """Forget a session and its packets. Idempotent."""
        self._limits_bytes.pop(key, None)
        self._held_bytes.pop(key, None)
        self._packets.pop(key, None)

    def offer(self, packet: Packet) -> QueueResult:
        """Queue a packet; drop it if its session is not admitted or would exceed its limit."""
        limit_bytes = self._limits_bytes.get(packet.key)
        if limit_bytes is None:
            self.stray_packets += 1
            return QueueResult.STRAY
        if self._held_bytes[packet.key] + packet.size_bytes > limit_bytes:
            return QueueResult.OVERFLOW
        self._held_bytes[packet.key] += packet.size_bytes
        self._packets[packet.key].append(packet)
        return QueueResult.TAKEN

    def take(self, limit_bytes: int, is_sendable: Callable[[Packet], bool]) -> list[Packet]:
        """Remove and return packets of up to `limit_bytes` together; at least one if any is sendable.

        Args:
            limit_bytes: the most bytes of all returned packets; a single larger packet is returned alone.
            is_sendable: if false for a packet, it stays, and so do the later packets of its session.
        """
        batch: list[Packet] = []
        batch_bytes = 0
        turns = deque(key for key, packets in self._packets.items() if packets)
        while turns:
            key = turns.popleft()
            packet = self._packets[key][0]
            if not is_sendable(packet):
                continue
            if batch and batch_bytes + packet.size_bytes > limit_bytes:
                break
            batch.append(packet)
            batch_bytes += packet.size_bytes
            self._remove_first(key)
            if self._packets[key]:
                turns.append(key)
        self._send_to_the_end({packet.key for packet in batch})
        return batch

    def _remove_first(self, key: SessionKey) -> None:
        self._held_bytes[key] -= self._packets[key].popleft().size_bytes

    def _send_to_the_end(self, served: set[SessionKey]) -> None:
        """Move the sessions in `served` behind the others, so that the others come first at the next `take`."""
        for key in [key for key in self._packets if key in served]:
            self._packets[key] = self._packets.pop(key)
