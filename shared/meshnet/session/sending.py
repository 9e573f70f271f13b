"""The sending end of an edge: numbers frames and keeps them within the receiver's window.

Invariants: `seq` counts from 0 without gaps. Never more than the granted window is in flight. A closed end sends
nothing. Source: docs/wire.md, Frames and Credits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.failure_codes import FailureCode
from meshnet.frame import MessageError

if TYPE_CHECKING:
    from meshnet.frame import Ack


@dataclass(frozen=True, slots=True)
class Window:
    """The most frames, and bytes of tensor data, that may be sent on an edge without an acknowledgement."""

    frames: int
    tensor_bytes: int


class SendingEdge:
    """Numbers frames and keeps them within the receiver's window. It is not thread-safe; one sender owns it."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._unacknowledged: deque[tuple[int, int]] = deque()
        self._in_flight_bytes = 0
        self._next_seq = 0
        self._is_closed = False

    @property
    def in_flight_frames(self) -> int:
        """Number of frames that were sent but not acknowledged."""
        return len(self._unacknowledged)

    def has_credit(self, tensor_bytes: int = 0) -> bool:
        """Tell if the window has room now for a whole frame of `tensor_bytes`; False if this end is closed.

        Raises:
            ValueError: the frame is larger than the whole window, so it could never be sent.
        """
        if tensor_bytes > self._window.tensor_bytes:
            raise ValueError(f"a frame of {tensor_bytes} bytes over a window of {self._window.tensor_bytes}")
        fits = self._in_flight_bytes + tensor_bytes <= self._window.tensor_bytes
        return not self._is_closed and fits and self.in_flight_frames < self._window.frames

    def send(self, tensor_bytes: int = 0) -> int:
        """Count one whole frame (all its parts) as sent, and return the `seq` that it must carry.

        Raises:
            ValueError: the frame may not be sent now; ask `has_credit` first.
        """
        if not self.has_credit(tensor_bytes):
            raise ValueError("no credit on this edge")
        seq = self._next_seq
        self._next_seq += 1
        self._unacknowledged.append((seq, tensor_bytes))
        self._in_flight_bytes += tensor_bytes
        return seq

    def acknowledge(self, ack: Ack) -> int:
        """Take all frames up to `ack.seq` out of the window; return their number (0 for a repeated ack).

        Raises:
            MessageError: `malformed` if the receiver acknowledges a frame that was never sent.
        """
        if self._is_closed:
            return 0
        if ack.seq >= self._next_seq:
            raise MessageError(FailureCode.MALFORMED, "an acknowledgement is of a frame that was never sent")
        freed = 0
        while self._unacknowledged and self._unacknowledged[0][0] <= ack.seq:
            self._in_flight_bytes -= self._unacknowledged.popleft()[1]
            freed += 1
        return freed

    def close(self) -> None:
        """Send nothing more, and ignore later acknowledgements. Idempotent."""
        self._is_closed = True
        self._unacknowledged.clear()
        self._in_flight_bytes = 0
