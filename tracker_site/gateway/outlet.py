"""The queue of text from a generation to its one reader, which writes it to the client.

Invariants: the token window bounds the queue. Telemetry is never queued; the reader takes the newest. A token is
acknowledged when the reader asks for the next one, so that a slow client delays its own route and nothing else. An
`Outlet` belongs to one event loop. Source: docs/wire.md, Credits.
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
    """Text for the client. `tokens` is the number of tokens that the client has, once it has read this text."""

    delta: TextDelta
    tokens: int


class Outlet:
    """A bounded queue of deliveries with one writer and one reader."""

    def __init__(self, capacity: int, acknowledge: Callable[[int], None]) -> None:
        """Make an empty queue for at most `capacity` deliveries.

        `acknowledge` is called with the number of tokens that the client has read so far.
        """
        self._capacity = capacity
        self._acknowledge = acknowledge
        self._waiting: deque[Delivery] = deque()
        self._taken: Delivery | None = None
        self._changed = asyncio.Event()
        self._last: Finished | Failed | None = None
        self.delivered_tokens = 0

    @property
    def is_behind(self) -> bool:
        """Whether there are deliveries that the client has not read yet."""
        return bool(self._waiting) or self._taken is not None

    @property
    def has_waiting(self) -> bool:
        """Whether a delivery waits in the queue."""
        return bool(self._waiting)

    @property
    def last(self) -> Finished | Failed | None:
        """The final event; None until it is known and the reader has read everything before it."""
        return None if self.is_behind else self._last

    def put(self, delivery: Delivery) -> None:
        """Queue a delivery.

        Raises:
            ProtocolError: `window_exceeded`: the tail sent more tokens than the token window allows.
        """
        if len(self._waiting) >= self._capacity:
            message = "The tail sent more tokens than the window allows."
            raise ProtocolError(FailureCode.WINDOW_EXCEEDED, "Window exceeded", message)
        self._waiting.append(delivery)
        self._changed.set()

    def put_rest(self, delivery: Delivery) -> None:
        """Queue the last text of the answer, which was held back until the last token, even if the queue is full."""
        self._waiting.append(delivery)

    def finish(self, last: Finished | Failed) -> None:
        """Set the final event; the reader gets it after all waiting deliveries."""
        self._last = last
        self._changed.set()

    def wake(self) -> None:
        """Wake the reader, because there may be new telemetry."""
        self._changed.set()

    def take(self) -> Delivery | None:
        """Return the next delivery or None, and acknowledge the previous delivery, which the client has read by now."""
        self._confirm()
        if self._waiting:
            self._taken = self._waiting.popleft()
        return self._taken

    async def wait(self, timeout_s: float) -> None:
        """Wait until a delivery, telemetry or the final event arrives, at most `timeout_s`."""
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
