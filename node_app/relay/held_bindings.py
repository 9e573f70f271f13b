"""The bindings at the relay that this node wants, over several connections.

Invariants: each binding is settled once (confirmed or refused) and over once; its queue is admitted when it is added
and dropped when it leaves. No I/O; one event loop.
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
    """A wanted binding.

    Attributes:
        signed_ticket: what it takes to bind, also a second time.
        confirmed: settled by the first answer of a relay.
    """

    binding: Binding
    signed_ticket: bytes
    confirmed: asyncio.Future[None]


class HeldBindings:
    """All of them. `on_over` is told of a confirmed binding that ended without this node's asking."""

    def __init__(self, queue: PacketQueue, on_over: Callable[[SessionKey, str, str], None]) -> None:
        self._queue = queue
        self._on_over = on_over
        self._held: dict[Binding, HeldBinding] = {}

    def all(self) -> tuple[HeldBinding, ...]:
        """Return every wanted binding."""
        return tuple(self._held.values())

    def add(self, binding: Binding, signed_ticket: bytes, queue_bytes: int) -> HeldBinding:
        """Want a binding; await its `confirmed`."""
        held = HeldBinding(binding, signed_ticket, asyncio.get_running_loop().create_future())
        self._held[binding] = held
        self._queue.admit(binding.key, queue_bytes)
        return held

    def remove(self, binding: Binding) -> bool:
        """Want it no longer; False where it was not there."""
        self._queue.drop(binding.key)
        return self._held.pop(binding, None) is not None

    def confirm(self, binding: Binding) -> None:
        """The relay agreed (again)."""
        held = self._held.get(binding)
        if held is not None and not held.confirmed.done():
            held.confirmed.set_result(None)

    def end(self, binding: Binding, code: str, message: str) -> None:
        """The relay refused it, or ended it. Idempotent."""
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
