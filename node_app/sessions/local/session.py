"""Drives one open local session: sends the messages of its `LocalMachine` and gives the events to the one reader.

Invariants: decides nothing; the token window bounds the events that the reader has not taken. One event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import Frame, MessageError, read_edge_message, serialise_edge_message, serialise_frame
from meshnet.packets import Packet, PacketKind
from node_app.sessions.local.machine import LocalMachine
from node_app.sessions.local.terms import STAGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.frame import EdgeMessage
    from meshnet.generation.progress import RouteEvent
    from meshnet.ids import SessionKey
    from meshnet.v1 import session_pb2
    from node_app.sessions.local.terms import LocalTerms

CLOSE_WAIT_S: Final = 1.0


class LocalSession:
    """One open session of this machine's own.

    Args:
        terms: the session's terms.
        context_length: the largest number of positions of the session, as the worker opened it.
        send: takes packets for the worker.
        on_over: removes the session from the open ones and begins to close it on the worker; takes the reason, called
            once.
    """

    def __init__(
        self,
        terms: LocalTerms,
        context_length: int,
        send: Callable[[list[Packet]], None],
        on_over: Callable[[str], asyncio.Task[None] | None],
    ) -> None:
        self.key: SessionKey = terms.key
        self._send = send
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._machine = LocalMachine(terms, context_length, self._loop.time())
        self._events: deque[RouteEvent] = deque()
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_released = False

    def start(self) -> None:
        """Begin to send the prompt."""
        self._settle()

    async def next_event(self, timeout_s: float) -> RouteEvent | None:
        """Return the next event; None if none came in time.

        Raises:
            LocalRouteError: the session failed, and all events before the failure have been returned.
        """
        if not self._events and self._machine.failure is None:
            self._changed.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                return None
        if self._events:
            return self._events.popleft()
        if self._machine.failure is not None:
            raise self._machine.failure
        return None

    def acknowledge(self, index: int) -> None:
        """Note that the reader has taken every token up to number `index`; ignored if the session is over.

        Raises:
            ValueError: the worker has not sent that token yet.
        """
        self._machine.acknowledge(index, self._loop.time())
        self._settle()

    async def close(self, reason: str) -> None:
        """End the session and wait at most CLOSE_WAIT_S for the worker to close it. Idempotent."""
        if self._is_released:
            return
        self._is_released = True
        self._machine.close()
        self._settle()
        closing = self._on_over(reason)
        if closing is not None:
            await asyncio.wait({closing}, timeout=CLOSE_WAIT_S)

    def receive(self, written: session_pb2.EdgeMessage) -> None:
        """Handle a message of the worker; if it breaks the protocol, the session fails."""
        try:
            self._machine.receive(read_edge_message(written), self._loop.time())
        except MessageError as error:
            self._machine.fail(error.code, error.message)
        self._settle()

    def fail(self, code: str, message: str) -> None:
        """End the session with a failure. Idempotent."""
        self._machine.fail(code, message)
        self._settle()

    def _settle(self) -> None:
        messages = self._machine.messages_to_send()
        if messages:
            self._send([_packet(message) for message in messages])
        self._events.extend(self._machine.events())
        self._changed.set()
        if self._timer is not None:
            self._timer.cancel()
        deadline_s = self._machine.next_deadline_s()
        self._timer = None if deadline_s is None else self._loop.call_at(deadline_s, self._tick)

    def _tick(self) -> None:
        self._machine.tick(self._loop.time())
        self._settle()


def _packet(message: Frame | EdgeMessage) -> Packet:
    if isinstance(message, Frame):
        return Packet(message.key, GATEWAY_STAGE, STAGE, PacketKind.FRAME, serialise_frame(message))
    return Packet(message.key, GATEWAY_STAGE, STAGE, PacketKind.CONTROL, serialise_edge_message(message))
