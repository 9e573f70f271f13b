"""The site's periodic jobs, on the event loop that serves it.

Invariants: started once per loop, by the first connection, never at import; every job is safe to run in several
processes at once; one that fails is logged and runs again at its next turn.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tracker_site import database
from tracker_site.billing import holds
from tracker_site.nodes import presence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A database function to be run every `interval_s` seconds; returns how many rows it changed."""

    name: str
    interval_s: float
    run: Callable[[], int]


JOBS: Final = (
    Job("expire node leases", 5.0, presence.expire_leases),
    Job("renew hold leases", holds.HOLD_LEASE.total_seconds() / 3, holds.renew_leases),
    Job("release orphaned holds", 15.0, holds.sweep),
)


class Background:
    """Runs jobs until its loop ends or it is stopped."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def ensure_started(self) -> None:
        """Start on the running loop; does nothing where it runs already."""
        loop = asyncio.get_running_loop()
        if self._loop is loop and self._tasks:
            return
        self._loop = loop
        self._tasks = [loop.create_task(_repeat(job), name=job.name) for job in self._jobs]

    async def stop(self) -> None:
        """End every job; idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _repeat(job: Job) -> None:
    while True:
        try:
            await database.write(job.run)
        except Exception:
            logger.exception("job failed: %s", job.name)
        await asyncio.sleep(job.interval_s)


background = Background(JOBS)
