"""Messages that wait to be written to one member.

Invariants: pure. A lane is the queue of one sender of one session; packets and the news that the sender is gone keep
their order in it. Lanes take turns packet by packet, so a session with much data does not delay the tokens of another
session. A lane never holds more bytes than its window allows. If a lane is closed, all of its packets are dropped.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from meshnet.packets import Packet, write_batch
from meshnet.v1 import relay_pb2

if TYPE_CHECKING:
    from collections.abc import Hashable


class Lane:
    """The queue of the packets that one stage of a session sends to one member."""

    __slots__ = ("_outbox", "_queue", "held_bytes", "window_bytes")

    def __init__(self, outbox: Outbox, window_bytes: int) -> None:
        self._outbox = outbox
        self._queue: deque[Packet | bytes] = deque()
        self.window_bytes: Final = window_bytes
        self.held_bytes = 0

    def has_room(self, packet: Packet) -> bool:
        """Return True if the packet fits into the lane's window."""
        return self.held_bytes + packet.held_bytes <= self.window_bytes

    def push(self, packet: Packet) -> None:
        """Queue a packet. The caller must have called `has_room`."""
        self.held_bytes += packet.held_bytes
        self._put(packet)

    def push_lost(self, message: bytes) -> None:
        """Queue the news that the sender is gone, behind its last packet. If that news is already last, do nothing."""
        if not self._queue or isinstance(self._queue[-1], Packet):
            self._put(message)

    def close(self) -> None:
        """Drop all queued packets and news. Idempotent."""
        self._queue.clear()
        self.held_bytes = 0

    def _put(self, item: Packet | bytes) -> None:
        if not self._queue:
            self._outbox.enter_turns(self)
        self._queue.append(item)

    def peek(self) -> Packet | bytes | None:
        """Return the next packet or news without removing it; None if the lane is empty, because it was closed."""
        return self._queue[0] if self._queue else None

    def pop(self) -> bool:
        """Remove the next packet or news; return True if more wait."""
        item = self._queue.popleft()
        if isinstance(item, Packet):
            self.held_bytes -= item.held_bytes
        return bool(self._queue)


class Outbox:
    """All messages that wait for one member: the relay's answers come first, then the lanes in turn."""

    __slots__ = ("_answers", "_pending_once", "_turns")

    def __init__(self) -> None:
        self._answers: deque[tuple[bytes, Hashable]] = deque()
        self._pending_once: set[Hashable] = set()
        self._turns: deque[Lane] = deque()

    @property
    def answers(self) -> int:
        """Number of the relay's own messages that wait."""
        return len(self._answers)

    def answer(self, message: bytes, *, once: Hashable = None) -> None:
        """Queue a message of the relay. If a message with the same `once` still waits, do nothing."""
        if once is not None:
            if once in self._pending_once:
                return
            self._pending_once.add(once)
        self._answers.append((message, once))

    def enter_turns(self, lane: Lane) -> None:
        """Let a lane take turns with the others. A lane calls this if it was empty and gets a packet or news."""
        self._turns.append(lane)

    def clear(self) -> None:
        """Drop the answers and forget the lanes. The bindings that own the lanes must close them."""
        self._answers.clear()
        self._pending_once.clear()
        self._turns.clear()

    def take(self, limit_bytes: int) -> bytes | None:
        """Remove and return the next message to write, of at most `limit_bytes`; None if nothing waits."""
        if self._answers:
            message, once = self._answers.popleft()
            self._pending_once.discard(once)
            return message
        batch: list[Packet] = []
        batch_bytes = 0
        while self._turns:
            lane = self._turns[0]
            item = lane.peek()
            if item is None:
                self._turns.popleft()
            elif isinstance(item, Packet) and (not batch or batch_bytes + item.size_bytes <= limit_bytes):
                batch.append(item)
                batch_bytes += item.size_bytes
                self._advance(lane)
            elif isinstance(item, bytes) and not batch:
                self._advance(lane)
                return item
            else:
                break
        return relay_pb2.RelayMessage(packets=write_batch(batch)).SerializeToString() if batch else None

    def _advance(self, lane: Lane) -> None:
        self._turns.popleft()
        if lane.pop():
            self._turns.append(lane)
