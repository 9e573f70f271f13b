"""Makes the one gateway of this process.

Invariants: the gateway is made on the event loop that first asks for it, never at import. Another event loop, as in
another test, gets another gateway.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tracker_site.gateway.gateway import Gateway
from tracker_site.gateway.parts import Parts
from tracker_site.gateway.record_store import DatabaseRecords
from tracker_site.gateway.served_models import CatalogModels
from tracker_site.gateway.site_ledger import SiteLedger
from tracker_site.routes.site_routes import site_routes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracker_site.gateway.ports import RouteOpener


class Composition:
    """Makes the gateway of the running event loop, keeps it and stops it."""

    def __init__(self, make_routes: Callable[[], RouteOpener]) -> None:
        self._make_routes = make_routes
        self._gateway: Gateway | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def use_routes(self, make_routes: Callable[[], RouteOpener]) -> None:
        """Set the function that makes the opener of routes, for tests and simulators; forget the present gateway."""
        self._make_routes = make_routes
        self._gateway = None

    def gateway(self) -> Gateway:
        """Return the gateway of the running event loop; make it on first use."""
        loop = asyncio.get_running_loop()
        if self._gateway is None or self._loop is not loop:
            parts = Parts(routes=self._make_routes(), ledger=SiteLedger(), records=DatabaseRecords())
            self._gateway, self._loop = Gateway(CatalogModels(), parts), loop
        return self._gateway

    @property
    def live_generations(self) -> int:
        """The number of this process's generations that are not settled yet."""
        return 0 if self._gateway is None else len(self._gateway.live)

    async def stop(self, timeout_s: float) -> None:
        """Cancel and settle the generations of the running event loop within `timeout_s`, then close their routes."""
        if self._gateway is not None and self._loop is asyncio.get_running_loop():
            await self._gateway.stop(timeout_s)


composition = Composition(site_routes)
