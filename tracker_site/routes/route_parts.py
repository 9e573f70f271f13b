"""The services, settings and background tasks that the routes of one process share.

Invariants: `drained` waits for all work that was given to `in_background`; errors of that work are logged. `load`
counts the stages that this process has open on each node, since nodes report them only with their next heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracker_site.routes.offer_book import OfferBook
from tracker_site.routes.session.deadlines import RouteDeadlines

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from meshnet.keys import SigningKey
    from tracker_site.routes.node_access import NodeAccess
    from tracker_site.routes.relay_link import RelayLink

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RouteParts:
    """The services, settings and background tasks that the routes of one process share.

    Attributes:
        link: connection to the relay.
        site_key: key with which the site signs tickets.
        relay_id: name of the relay in tickets.
        reply_channel: channel on which nodes' news of open stages arrives.
        is_exact: True if every route must give the same bits as the unsplit model.
        load: number of stages that this process has open, by node id.
    """

    link: RelayLink
    nodes: NodeAccess
    site_key: SigningKey
    relay_id: str
    deadlines: RouteDeadlines = field(default_factory=RouteDeadlines)
    reply_channel: str = ""
    is_exact: bool = False
    load: Counter[str] = field(default_factory=Counter)
    offers: OfferBook = field(init=False)
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.offers = OfferBook(self.nodes, self.in_background)

    def log_failure(self, error: BaseException) -> None:
        """Log an unexpected exception of a route's task."""
        log.error("a route's task failed", exc_info=error)

    def in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run `work` in a task that goes on if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)
        return task

    async def drained(self) -> None:
        """Wait for all background work."""
        if self._background:
            await asyncio.wait(set(self._background))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log_failure(error)
