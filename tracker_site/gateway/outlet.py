"""The hand-off from a generation to its one reader.

Invariants: what waits is bounded by the token window; telemetry is never queued, only the newest is taken. A token is
acknowledged when the reader comes back for more, so that a slow client holds up its own route and nothing else.
Belongs to one event loop. Source: docs/wire.md, Credits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.errors import ProtocolError
from meshnet.failure_codes import FailureCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.openai.events import Failed, Finished, TextDelta


@dataclass(frozen=True, slots=True)
class Delivery:
    """Text for the client, and how many tokens it has been given once it took this."""

    delta: TextDelta
    tokens: int


class Outlet:
    """A bounded queue with one writer and one reader."""

    def __init__(self, capacity: int, acknowledge: Callable[[int], None]) -> None:
        """Args: capacity: deliveries that may wait; acknowledge: called with the number of tokens delivered."""
        self._capacity = capacity
        self._acknowledge = acknowledge
        self._waiting: deque[Delivery] = deque()
        self._taken: Delivery | None = None
        self._changed = asyncio.Event()
        self._last: Finished | Failed | None = None
        self.delivered_tokens = 0

    @property
    def is_behind(self) -> bool:
        """Whether the reader has not taken everything yet."""
        return bool(self._waiting) or self._taken is not None

    @property
    def has_waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self._waiting)

    @property
    def last(self) -> Finished | Failed | None:
        """The final event, once it is known and everything before it has been taken."""
        return None if self.is_behind else self._last

    def put(self, delivery: Delivery) -> None:
        """Queue a delivery.

        Raises:
            ProtocolError: `window_exceeded`; the tail ran further ahead than it may.
        """
        if len(self._waiting) >= self._capacity:
            message = "The tail sent more tokens than the window allows."
            raise ProtocolError(FailureCode.WINDOW_EXCEEDED, "Window exceeded", message)
        self._waiting.append(delivery)
        self._changed.set()

    def put_rest(self, delivery: Delivery) -> None:
        """Queue what was held back, after the last token; there is always room for it."""
        self._waiting.append(delivery)

    def finish(self, last: Finished | Failed) -> None:
        """Set the final event; the reader gets it after everything that waits."""
        self._last = last
        self._changed.set()

    def wake(self) -> None:
        """Let the reader look again: there may be new telemetry."""
        self._changed.set()

    def take(self) -> Delivery | None:
        """The next delivery, or None; acknowledges the one before, which the client now has."""
        self._confirm()
        if self._waiting:
            self._taken = self._waiting.popleft()
        return self._taken

    async def wait(self, timeout_s: float) -> None:
        """Wait until something changed, at most `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def _confirm(self) -> None:
        if self._taken is not None:
            self.delivered_tokens = self._taken.tokens
            self._taken = None
            self._acknowledge(self.delivered_tokens)
