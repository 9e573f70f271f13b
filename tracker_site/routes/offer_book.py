"""Keeps an index of each model's offers, which many requests share, and plans routes over it.

Invariants: if an index is cheap to make, it is made anew for every request, so a small site plans with current offers.
If many nodes make it expensive, one index is used for a bounded time that grows with its cost. It is renewed in the
background while requests come. If a request finds no route, it waits for a new index before it fails. The load by
stages that this process has opened is always counted. A node may still refuse to open its stage. If it refuses because
it has a new worker, the route is planned again with offers that are read after the refusal.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tracker_site.routes.planning.no_route import NoRouteError
from tracker_site.routes.planning.offer_index import OfferIndex
from tracker_site.routes.planning.planner import plan_indexed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tracker_site.routes.node_access import NodeAccess
    from tracker_site.routes.planning.need import RouteNeed
    from tracker_site.routes.planning.planner import RoutePlan

    Background = Callable[[Coroutine[None, None, None]], asyncio.Task[None]]
    # The artifact, whether groups are split by exact class, and whether they mix recipes.
    BookKey = tuple[bytes, bool, bool]

# If making an index takes less than this, in seconds, it is made anew for every request.
CHEAP_S: Final = 0.02
# An index is used for this many times the time that making it took,
USES_OF_COST: Final = 10.0
# but for at most this long, in seconds. While it is renewed, it may serve for twice its time. Source: ADR 10.
FRESH_MAX_S: Final = 1.0
# So few offers are indexed on the loop: that takes less time than handing them to a thread.
INLINE_OFFERS_MAX: Final = 500


@dataclass(slots=True)
class _Entry:
    """One index of offers.

    Attributes:
        begun_s: monotonic time at which the reading of its offers began.
        fresh_s: seconds from then on for which the index is used.
    """

    index: OfferIndex
    begun_s: float
    fresh_s: float


class OfferBook:
    """Plans routes of all models over the offers of live nodes. Belongs to one event loop."""

    def __init__(
        self, nodes: NodeAccess, in_background: Background, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._nodes = nodes
        self._in_background = in_background
        self._clock_s = clock_s
        self._entries: dict[BookKey, _Entry] = {}
        self._renewals: dict[BookKey, asyncio.Task[None]] = {}

    async def plan(self, artifact_digest: bytes, need: RouteNeed, *, by_new_offers: bool = False) -> RoutePlan:
        """Return the fastest route for `need`. If `by_new_offers`, all offers are read again before planning.

        Raises:
            NoRouteError: if no route is possible, even with offers that were read after the call began.
        """
        key, asked_s = (artifact_digest, need.is_exact, need.mixes_recipes), self._clock_s()
        entry = await self._usable(key)
        while True:
            is_new = entry.begun_s >= asked_s
            if is_new or not by_new_offers:
                try:
                    return plan_indexed(entry.index, need)
                except NoRouteError:
                    if is_new:
                        raise
            entry = await self._renewed(key)

    async def _usable(self, key: BookKey) -> _Entry:
        entry = self._entries.get(key)
        age_s = self._clock_s() - entry.begun_s if entry is not None else 0.0
        if entry is None or age_s > 2 * entry.fresh_s:
            return await self._renewed(key)
        if age_s > entry.fresh_s:
            self._renewal(key)
        return entry

    async def _renewed(self, key: BookKey) -> _Entry:
        """Wait for a renewal, which all waiting callers share. If one of them is cancelled, the renewal goes on."""
        renewal = self._renewal(key)
        await asyncio.wait([renewal])
        renewal.result()
        return self._entries[key]

    def _renewal(self, key: BookKey) -> asyncio.Task[None]:
        running = self._renewals.get(key)
        if running is None or running.done():
            running = self._renewals[key] = self._in_background(self._renew(key))
        return running

    async def _renew(self, key: BookKey) -> None:
        artifact_digest, is_exact, mixes_recipes = key
        begun_s = self._clock_s()
        offers = await self._nodes.offers(artifact_digest)
        if len(offers) <= INLINE_OFFERS_MAX:
            index = OfferIndex(offers, is_exact=is_exact, mixes_recipes=mixes_recipes)
        else:
            index = await asyncio.to_thread(OfferIndex, offers, is_exact=is_exact, mixes_recipes=mixes_recipes)
        cost_s = self._clock_s() - begun_s
        fresh_s = 0.0 if cost_s < CHEAP_S else min(FRESH_MAX_S, USES_OF_COST * cost_s)
        self._entries[key] = _Entry(index, begun_s, fresh_s)
