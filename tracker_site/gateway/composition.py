"""The one gateway of this process.

Invariants: made on the loop that first asks, never at import; another loop (another test) gets another one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from meshnet.errors import RouteError
from tracker_site.gateway.gateway import Gateway
from tracker_site.gateway.parts import Parts
from tracker_site.gateway.record_store import DatabaseRecords
from tracker_site.gateway.served_models import CatalogModels
from tracker_site.gateway.site_ledger import SiteLedger

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracker_site.gateway.ports import OpenRoute, RouteOpener
    from tracker_site.routes.request import RouteRequest


class Composition:
    """Makes and keeps gateways."""

    def __init__(self, make_routes: Callable[[], RouteOpener]) -> None:
        self._make_routes = make_routes
        self._gateway: Gateway | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def use_routes(self, make_routes: Callable[[], RouteOpener]) -> None:
        """Open routes in another way from now on; for tests and simulators."""
        self._make_routes = make_routes
        self._gateway = None

    def gateway(self) -> Gateway:
        """The gateway of the running loop."""
        loop = asyncio.get_running_loop()
        if self._gateway is None or self._loop is not loop:
            parts = Parts(routes=self._make_routes(), ledger=SiteLedger(), records=DatabaseRecords())
            self._gateway, self._loop = Gateway(CatalogModels(), parts), loop
        return self._gateway


class NoRoutes:
    """A site without a data plane: every generation is told that nothing serves it."""

    async def open_route(self, request: RouteRequest) -> OpenRoute:
        """Refuse."""
        raise RouteError("no_route", "No route", f"No live node serves layers 0-{request.n_layers - 1}.")


composition = Composition(NoRoutes)
