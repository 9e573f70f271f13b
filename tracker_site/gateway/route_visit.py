"""One generation's time on a route: opened, read, closed.

Invariants: a route that was opened is closed, once, before `run` ends; acknowledgements after that go nowhere. Opening,
reading and closing have deadlines.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from meshnet.errors import MeshnetError, RouteError
from meshnet.openai.telemetry import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.generation.telemetry_board import TelemetryBoard
    from meshnet.openai.events import FinishReason
    from tracker_site.gateway.parts import Parts
    from tracker_site.gateway.ports import OpenRoute
    from tracker_site.gateway.route_reader import RouteReader
    from tracker_site.routes.planning.request import RouteRequest, RouteStage

logger = logging.getLogger(__name__)


class RouteVisit:
    """Opens one route, lets a reader read it, closes it."""

    def __init__(self, parts: Parts, board: TelemetryBoard, on_change: Callable[[], None]) -> None:
        self._routes = parts.routes
        self._limits = parts.limits
        self._clock_s = parts.clock_s
        self._board = board
        self._on_change = on_change
        self._route: OpenRoute | None = None
        self.stages: tuple[RouteStage, ...] = ()

    async def run(self, request: RouteRequest, reader: RouteReader) -> FinishReason:
        """Compute a request; return why it ended.

        Raises:
            RouteError: no route could be had, or it failed.
            ProtocolError: the tail sent what cannot be.
        """
        self._board.enter(Phase.ROUTING, self._clock_s())
        self._on_change()
        route = await self._open(request)
        try:
            self._route = route
            self.stages = tuple(route.stages)
            self._board.set_stages(self.stages, self._clock_s())
            self._board.enter(Phase.PREFILL, self._clock_s())
            self._on_change()
            return await reader.read(route, self._limits)
        finally:
            self._route = None
            await self._close(route)

    def acknowledge(self, tokens: int) -> None:
        """The client has taken `tokens` tokens."""
        if self._route is not None and tokens > 0:
            self._route.acknowledge(tokens - 1)

    async def _open(self, request: RouteRequest) -> OpenRoute:
        try:
            async with asyncio.timeout(self._limits.routing_s):
                return await self._routes.open_route(request)
        except TimeoutError:
            message = f"No route was ready within {self._limits.routing_s:g} s."
            raise RouteError("routing_timeout", "No route in time", message) from None

    async def _close(self, route: OpenRoute) -> None:
        try:
            async with asyncio.timeout(self._limits.close_s):
                await route.close("generation_over")
        except (MeshnetError, TimeoutError) as error:
            # The stages free the session by their own idle clocks.
            logger.warning("a route was not closed in time: %s", type(error).__name__)
