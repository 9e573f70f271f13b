"""The bindings that this node wants at the relay, kept from one connection to the next.

A binding makes this node a stage of one session there. Invariants: each binding is confirmed or refused once, and ends
once; while it is held, its session's packets are admitted to the queue. No I/O; one event loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from node_app.worker.refusal import StageRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.ids import SessionKey
    from meshnet.member_events import Binding
    from node_app.relay.packet_queue import PacketQueue


@dataclass(slots=True)
class HeldBinding:
    """A binding that this node wants at the relay.

    Attributes:
        signed_ticket: the site's permission to bind; also used to bind again on the next connection.
        confirmed: done when the relay confirms for the first time; raises StageRefusedError if the relay refuses.
    """

    binding: Binding
    signed_ticket: bytes
    confirmed: asyncio.Future[None]


class HeldBindings:
    """All bindings that this node wants.

    Args:
        queue: holds the packets that wait for the relay.
        on_over: called with session, code and message if a confirmed binding ends although this node did not remove it.
    """

    def __init__(self, queue: PacketQueue, on_over: Callable[[SessionKey, str, str], None]) -> None:
        self._queue = queue
        self._on_over = on_over
        self._held: dict[Binding, HeldBinding] = {}

    def all(self) -> tuple[HeldBinding, ...]:
        """Return every wanted binding."""
        return tuple(self._held.values())

    def add(self, binding: Binding, signed_ticket: bytes, queue_bytes: int) -> HeldBinding:
        """Hold a binding and let its packets queue up to `queue_bytes`; the caller awaits the result's `confirmed`."""
        held = HeldBinding(binding, signed_ticket, asyncio.get_running_loop().create_future())
        self._held[binding] = held
        self._queue.admit(binding.key, queue_bytes)
        return held

    def remove(self, binding: Binding) -> bool:
        """Drop a binding and its packets; return False if it was not held."""
        self._queue.drop(binding.key)
        return self._held.pop(binding, None) is not None

    def confirm(self, binding: Binding) -> None:
        """Note that the relay has confirmed a binding; a later confirmation of the same binding changes nothing."""
        held = self._held.get(binding)
        if held is not None and not held.confirmed.done():
            held.confirmed.set_result(None)

    def end(self, binding: Binding, code: str, message: str) -> None:
        """Drop a binding that the relay has refused or ended. Idempotent.

        If the relay had not confirmed it before, its `confirmed` raises; otherwise `on_over` is called.
        """
        held = self._held.get(binding)
        if held is None:
            return
        self.remove(binding)
        if held.confirmed.done():
            self._on_over(binding.key, code, message)
        else:
            held.confirmed.set_exception(StageRefusedError(code, message))

    def end_session(self, key: SessionKey, code: str, message: str) -> None:
        """End every binding of one session."""
        for binding in [one for one in self._held if one.key == key]:
            self.end(binding, code, message)

    def end_all(self, code: str, message: str) -> None:
        """End every binding."""
        for binding in list(self._held):
            self.end(binding, code, message)
