"""How far a load is, told by the thread that loads and heard on the event loop.

Invariant: what is told is work that was done, never time that passed, so that a load which stands still falls silent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from meshnet.errors import WorkerError
from meshnet.failure_codes import FailureCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from node_app.reference_worker.sessions.machine import StageMachine


class LoadNews:
    """Of one load. Made on the loop that hears it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._fraction = 0.0
        self._is_given_up = False

    def tell(self, fraction: float) -> None:
        """So much is loaded, 0 to 1. From any thread.

        Raises:
            WorkerError: `cancelled`: nobody waits for it any more.
        """
        if self._is_given_up:
            raise WorkerError(FailureCode.CANCELLED, "Given up", "loading was given up")
        self._loop.call_soon_threadsafe(self._note, fraction)

    def give_up(self) -> None:
        """Let the next `tell` end the load."""
        self._is_given_up = True

    async def until(self, loaded: asyncio.Future[StageMachine]) -> AsyncIterator[float]:
        """What is told until `loaded` is done; the newest where it comes faster than it is taken."""
        while not loaded.done():
            change = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((loaded, change), return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
            if self._changed.is_set():
                self._changed.clear()
                yield self._fraction

    def _note(self, fraction: float) -> None:
        self._fraction = fraction
        self._changed.set()
