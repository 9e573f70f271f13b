"""What waits to be written to one member.

Invariants: pure. Order is kept within a lane (one sender of one session), a loss included; lanes take turns packet by
packet, so that one session's bulk does not hold back another's tokens. A lane never holds more than its window, and
closing it frees all that it holds at once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from meshnet.packets import Packet, write_batch
from meshnet.v1 import relay_pb2

if TYPE_CHECKING:
    from collections.abc import Hashable


class Lane:
    """Packets of one session from one other stage, on their way to one member."""

    __slots__ = ("_outbox", "_queue", "held_bytes", "window_bytes")

    def __init__(self, outbox: Outbox, window_bytes: int) -> None:
        self._outbox = outbox
        self._queue: deque[Packet | bytes] = deque()
        self.window_bytes: Final = window_bytes
        self.held_bytes = 0

    def has_room(self, packet: Packet) -> bool:
        """Whether the packet stays within what was granted."""
        return self.held_bytes + packet.held_bytes <= self.window_bytes

    def push(self, packet: Packet) -> None:
        """Queue a packet; the caller has asked `has_room`."""
        self.held_bytes += packet.held_bytes
        self._put(packet)

    def push_lost(self, message: bytes) -> None:
        """Queue the news that the sender is gone, behind its last packet; twice in a row says nothing more."""
        if not self._queue or isinstance(self._queue[-1], Packet):
            self._put(message)

    def close(self) -> None:
        """Drop everything that waits. Idempotent."""
        self._queue.clear()
        self.held_bytes = 0

    def _put(self, item: Packet | bytes) -> None:
        if not self._queue:
            self._outbox.enter_turns(self)
        self._queue.append(item)

    def peek(self) -> Packet | bytes | None:
        """The next item, or None where the lane was closed meanwhile."""
        return self._queue[0] if self._queue else None

    def pop(self) -> bool:
        """Remove the next item; whether more wait."""
        item = self._queue.popleft()
        if isinstance(item, Packet):
            self.held_bytes -= item.held_bytes
        return bool(self._queue)


class Outbox:
    """Everything that waits for one member: the relay's answers first, then the lanes in turn."""

    __slots__ = ("_answers", "_pending_once", "_turns")

    def __init__(self) -> None:
        self._answers: deque[tuple[bytes, Hashable]] = deque()
        self._pending_once: set[Hashable] = set()
        self._turns: deque[Lane] = deque()

    @property
    def answers(self) -> int:
        """The relay's own messages that wait."""
        return len(self._answers)

    def answer(self, message: bytes, *, once: Hashable = None) -> None:
        """Queue a message of the relay; one with a `once` that still waits is not queued again."""
        if once is not None:
            if once in self._pending_once:
                return
            self._pending_once.add(once)
        self._answers.append((message, once))

    def enter_turns(self, lane: Lane) -> None:
        """A lane that was empty has something to write."""
        self._turns.append(lane)

    def clear(self) -> None:
        """Drop everything that waits. The lanes are closed by their owners."""
        self._answers.clear()
        self._pending_once.clear()
        self._turns.clear()

    def take(self, limit_bytes: int) -> bytes | None:
        """The next message to write, of at most `limit_bytes`, or None when nothing waits."""
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
