"""Periodic jobs of the site, run on the event loop that serves it.

Invariants: the first connection of a loop starts the jobs, and importing this module does not. Several processes may
run the same job at once. If a job fails, the failure is logged and the job runs again after its interval.
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
    """A database function that runs every `interval_s` seconds; it returns the number of rows that it changed."""

    name: str
    interval_s: float
    run: Callable[[], int]


JOBS: Final = (
    Job("expire node leases", 5.0, presence.expire_leases),
    Job("renew hold leases", holds.HOLD_LEASE.total_seconds() / 3, holds.renew_leases),
    Job("release orphaned holds", 15.0, holds.sweep),
)


class Background:
    """Runs periodic jobs until their event loop ends or `stop` is called. Use it on one event loop at a time."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def ensure_started(self) -> None:
        """Start the jobs on the running loop; if they run on it already, do nothing."""
        loop = asyncio.get_running_loop()
        if self._loop is loop and self._tasks:
            return
        self._loop = loop
        self._tasks = [loop.create_task(_repeat(job), name=job.name) for job in self._jobs]

    async def stop(self) -> None:
        """Cancel all jobs and wait until they have ended; idempotent."""
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
