"""The receiving end of an edge: checks, assembles and acknowledges frames.

Invariants: a repeated frame is dropped, counted and acknowledged again, but never delivered twice. If a frame is
missing, the session fails. Never more than the granted window is held. A closed end holds and delivers nothing. Source:
docs/wire.md, Frames and Credits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from meshnet.frame import Ack, Frame, FrameAssembler, MessageError
from meshnet.session.transitions import TRANSITIONS, Action, Arrival, ReceivingState

if TYPE_CHECKING:
    from meshnet.failure_codes import FailureCode
    from meshnet.ids import Address
    from meshnet.session.sending import Window


@dataclass(frozen=True, slots=True)
class Delivered:
    """A whole frame for the engine. It fills a part of the window until `ReceivingEdge.consume` is called for it."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Pending:
    """A part of a frame was kept; others are still to come."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """The frame came before and was dropped. If `ack` is not None, the caller must send that ack again."""

    ack: Ack | None


@dataclass(frozen=True, slots=True)
class Stray:
    """The frame belongs to no open session and was dropped. The caller must answer it with `SessionGone(code)`."""

    code: FailureCode


Outcome: TypeAlias = Delivered | Pending | Repeated | Stray


class ReceivingEdge:
    """Checks, assembles and acknowledges the frames of one edge. It is not thread-safe; one reader owns it."""

    def __init__(self, address: Address, window: Window) -> None:
        self._address = address
        self._window = window
        self._assembler = FrameAssembler()
        self._unconsumed: deque[tuple[int, int]] = deque()
        self._next_seq = 0
        self._consumed_seq: int | None = None
        self._is_closed = False
        self.repeated_frames = 0

    @property
    def state(self) -> ReceivingState:
        """Whether this end waits for a new frame, assembles one from its parts, or is closed."""
        if self._is_closed:
            return ReceivingState.CLOSED
        return ReceivingState.EXPECTING if self._assembler.seq is None else ReceivingState.ASSEMBLING

    @property
    def held_bytes(self) -> int:
        """Bytes of tensor data that were delivered but not consumed, or that are being assembled."""
        return sum(size for _, size in self._unconsumed) + self._assembler.held_bytes

    def receive(self, frame: Frame) -> Outcome:
        """Take a frame, or a part of one, that arrived on the edge.

        Raises:
            MessageError: the session failed and this end is closed; but if the code is `edge_not_permitted`, only the
                sender is at fault and this end stays open.
        """
        cell = TRANSITIONS[self.state, self.classify(frame)]
        match cell.action:
            case Action.DELIVER:
                return self._deliver(frame)
            case Action.KEEP:
                return self._keep(frame)
            case Action.REPEAT:
                self.repeated_frames += 1
                return Repeated(self._last_ack())
            case Action.STRAY:
                return Stray(cell.code)
            case Action.FAIL:
                self.close()
        raise MessageError(cell.code, f"frame {frame.seq} came, but {self._next_seq} is next", frame.address)

    def classify(self, frame: Frame) -> Arrival:
        """Return the kind of arrival that `frame` is at present; the state of this end does not change."""
        key = self._address.key
        if frame.session != key.session or frame.epoch > key.epoch:
            return Arrival.UNKNOWN_SESSION
        if frame.epoch < key.epoch:
            return Arrival.OLD_EPOCH
        if frame.edge != self._address.edge:
            return Arrival.FOREIGN_EDGE
        index = 0 if frame.fragment is None else frame.fragment.index
        if frame.seq < self._next_seq or (frame.fragment is not None and index < self._next_part(frame)):
            return Arrival.REPEAT
        if frame.seq > self._next_seq or index > self._next_part(frame):
            return Arrival.GAP
        return self._classify_size(frame)

    def consume(self, seq: int) -> Ack | None:
        """Record that the engine consumed all frames up to `seq`; return the ack to send, or None if closed.

        Raises:
            ValueError: `seq` was never delivered.
        """
        if self._is_closed:
            return None
        if seq >= self._next_seq:
            raise ValueError(f"frame {seq} was never delivered")
        while self._unconsumed and self._unconsumed[0][0] <= seq:
            self._consumed_seq = self._unconsumed.popleft()[0]
        return self._last_ack()

    def close(self) -> None:
        """Close this end and drop the frames that it holds; frames that arrive later are strays. Idempotent."""
        self._is_closed = True
        self._assembler.clear()
        self._unconsumed.clear()

    def _next_part(self, frame: Frame) -> int:
        return self._assembler.next_index if self._assembler.seq == frame.seq else 0

    def _classify_size(self, frame: Frame) -> Arrival:
        size_bytes = frame.data_bytes if frame.fragment is None else frame.fragment.total_bytes
        waiting_bytes = sum(size for _, size in self._unconsumed)
        if size_bytes > self._window.tensor_bytes:
            return Arrival.TOO_LARGE
        over_bytes = waiting_bytes + size_bytes > self._window.tensor_bytes
        if over_bytes or len(self._unconsumed) >= self._window.frames:
            return Arrival.OVER_WINDOW
        return Arrival.WHOLE if frame.fragment is None else Arrival.PART

    def _deliver(self, frame: Frame) -> Delivered:
        self._unconsumed.append((frame.seq, frame.data_bytes))
        self._next_seq = frame.seq + 1
        return Delivered(frame)

    def _keep(self, part: Frame) -> Outcome:
        try:
            whole = self._assembler.add(part)
        except MessageError:
            self.close()
            raise
        return Pending() if whole is None else self._deliver(whole)

    def _last_ack(self) -> Ack | None:
        return None if self._consumed_seq is None else Ack(self._consumed_seq)
