"""Opens, keeps and closes the routes of this process.

Invariants: `SiteRoutes` is made on the event loop that uses it, never at import. All routes share one connection to the
relay and one channel for news of nodes; both start with the first route or with `warm_up`. After `close`, every route
is closed and no task is left.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from django.conf import settings

from meshnet.ids import new_session_id
from meshnet.keys import SigningKey
from tracker_site.nodes.site_key import site_signing_key
from tracker_site.routes.driver import DrivenRoute
from tracker_site.routes.node_access import ControlledNodes
from tracker_site.routes.relay_link import RelayLink
from tracker_site.routes.route_parts import RouteParts

if TYPE_CHECKING:
    from tracker_site.routes.planning.request import RouteRequest

log = logging.getLogger(__name__)


class SiteRoutes:
    """Opens the routes of this process, passes nodes' news to them, and closes them."""

    def __init__(self, parts: RouteParts) -> None:
        self._parts = parts
        self._live: dict[bytes, DrivenRoute] = {}
        self._news: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    @property
    def live(self) -> int:
        """Number of routes that are not over."""
        return len(self._live)

    async def open_route(self, request: RouteRequest) -> DrivenRoute:
        """Plan a route and open every stage of it. If the call is cancelled, opened stages are closed again.

        Raises:
            RouteError: if no route could be planned or opened.
        """
        await self._start()
        request = replace(request, is_exact=request.is_exact or self._parts.is_exact)
        route = DrivenRoute(new_session_id(secrets.token_bytes), request, self._parts, on_over=self._forget)
        self._live[route.session] = route
        await route.opened()
        return route

    async def warm_up(self) -> None:
        """Connect to the relay and listen for nodes' news, so that the first route need not wait for it.

        Raises:
            RouteError: `relay_unavailable`, if it is not connected in time; connecting goes on in the background.
        """
        await self._start()
        await self._parts.link.ready(self._parts.deadlines.relay_s)

    async def close(self) -> None:
        """Close every route, disconnect from the relay and stop listening to nodes' news. Idempotent."""
        for route in list(self._live.values()):
            await route.close("site_stopping")
        await self._parts.drained()
        news, self._news = self._news, None
        if news is not None:
            news.cancel()
            await asyncio.wait([news])
        await self._parts.link.close()

    def _forget(self, session: bytes) -> None:
        self._live.pop(session, None)

    async def _start(self) -> None:
        async with self._starting:
            if self._news is None:
                self._parts.reply_channel = await self._parts.nodes.new_reply_channel()
                self._news = asyncio.create_task(self._hear_news(self._parts.reply_channel), name="route news")

    async def _hear_news(self, reply_channel: str) -> None:
        while True:
            news = await self._parts.nodes.receive_news(reply_channel)
            route = self._live.get(news.key.session)
            if route is not None:
                route.hear(news)


def site_routes() -> SiteRoutes:
    """Make this process's `SiteRoutes` from the site's settings, with a new key for its connection to the relay.

    Call it on the event loop that will use it.
    """
    return SiteRoutes(
        RouteParts(
            link=RelayLink(settings.RELAY_URL, SigningKey.generate()),
            nodes=ControlledNodes(),
            site_key=site_signing_key(),
            relay_id=settings.RELAY_ID,
            is_exact=settings.EXACT_ROUTES,
        )
    )
