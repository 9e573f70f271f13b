"""Carries the progress of a load from the thread that loads to the event loop.

Invariant: progress counts work that was done, never time that passed. So if a load hangs, no progress is reported.
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
    """Progress of one load. It must be constructed on the event loop that receives the progress."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._fraction = 0.0
        self._is_given_up = False

    def tell(self, fraction: float) -> None:
        """Report the loaded fraction, 0 to 1. May be called from any thread.

        Raises:
            WorkerError: `cancelled`: the load was given up.
        """
        if self._is_given_up:
            raise WorkerError(FailureCode.CANCELLED, "Given up", "the loading was cancelled")
        self._loop.call_soon_threadsafe(self._note, fraction)

    def give_up(self) -> None:
        """Give up the load: the next call of `tell` raises, which ends the load."""
        self._is_given_up = True

    async def until(self, loaded: asyncio.Future[StageMachine]) -> AsyncIterator[float]:
        """Yield the loaded fraction when it has changed, until `loaded` is done; a slow reader gets only the newest."""
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
