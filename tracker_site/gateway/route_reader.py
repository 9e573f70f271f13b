"""Opens the route of one generation, reads its tokens as text for the client, and closes it.

Invariants: if a route was opened, it is closed once before `run` ends; later acknowledgements are ignored. Nothing is
read after the answer's last token. Opening, every wait for the next event, and closing have deadlines.
Source: docs/wire.md, Finish.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from meshnet.errors import MeshnetError, RouteError
from meshnet.generation.answer_text import AnswerText
from meshnet.generation.progress import PrefillAdvanced, StageHealthChanged, TokenReceived
from meshnet.openai.telemetry import Phase
from tracker_site.gateway.outlet import Delivery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from meshnet.generation.progress import RouteEvent
    from meshnet.generation.telemetry_board import TelemetryBoard
    from meshnet.openai.events import FinishReason
    from tracker_site.gateway.admission import Admission
    from tracker_site.gateway.outlet import Outlet
    from tracker_site.gateway.parts import Parts
    from tracker_site.gateway.ports import OpenRoute
    from tracker_site.routes.planning.request import RouteStage

logger = logging.getLogger(__name__)


class RouteReader:
    """Opens one route, delivers its tokens as text, and closes it. `stages` is empty until the route is open."""

    def __init__(
        self, parts: Parts, admission: Admission, stops: tuple[str, ...], board: TelemetryBoard, outlet: Outlet
    ) -> None:
        self._routes = parts.routes
        self._limits = parts.limits
        self._clock_s = parts.clock_s
        self._request = admission.request
        self._board = board
        self._outlet = outlet
        self._answer = AnswerText(admission.vocabulary, stops, with_tokens=admission.request.sampling.logprobs)
        self._route: OpenRoute | None = None
        self.stages: tuple[RouteStage, ...] = ()

    @property
    def tokens(self) -> int:
        """The number of tokens received so far."""
        return self._answer.tokens

    async def run(self, on_change: Callable[[], None]) -> FinishReason:
        """Open a route, deliver the answer, close the route and return the finish reason of the answer.

        Args:
            on_change: called when the search for a route begins, and again when the route is open.

        Raises:
            RouteError: there is no route, or it failed, stalled or ended early.
            ProtocolError: the tail sent an impossible event, or more tokens than the token window allows.
        """
        self._board.enter(Phase.ROUTING, self._clock_s())
        on_change()
        route = await self._open()
        try:
            self._route = route
            self.stages = tuple(route.stages)
            self._board.set_stages(self.stages, self._clock_s())
            self._board.enter(Phase.PREFILL, self._clock_s())
            on_change()
            return await self._read(route.events())
        finally:
            self._route = None
            await self._close(route)

    def acknowledge(self, tokens: int) -> None:
        """Tell the route that the client has read the first `tokens` tokens."""
        if self._route is not None and tokens > 0:
            self._route.acknowledge(tokens - 1)

    def flush(self) -> None:
        """Deliver the text that was held back, for example as a possible stop string. Call it after the last token."""
        self._outlet.put_rest(Delivery(self._answer.rest(), self.tokens))

    async def _open(self) -> OpenRoute:
        try:
            async with asyncio.timeout(self._limits.routing_s):
                return await self._routes.open_route(self._request)
        except TimeoutError:
            message = f"No route was ready within {self._limits.routing_s:g} s."
            raise RouteError("routing_timeout", "No route in time", message) from None

    async def _read(self, events: AsyncIterator[RouteEvent]) -> FinishReason:
        while True:
            reason = self._handle(await self._next(events))
            if reason is not None:
                return reason

    async def _next(self, events: AsyncIterator[RouteEvent]) -> RouteEvent:
        is_decoding = self._board.phase is Phase.DECODE
        timeout_s = self._limits.decode_stall_s if is_decoding else self._limits.prefill_stall_s
        try:
            async with asyncio.timeout(timeout_s):
                return await anext(events)
        except StopAsyncIteration:
            raise RouteError("route_ended", "Route ended", "The route ended before the answer was complete.") from None
        except TimeoutError:
            code = "decode_timeout" if is_decoding else "prefill_timeout"
            raise RouteError(code, "Route stalled", f"The route made no progress for {timeout_s:g} s.") from None

    def _handle(self, event: RouteEvent) -> FinishReason | None:
        now_s = self._clock_s()
        match event:
            case TokenReceived():
                return self._take_token(event, now_s)
            case PrefillAdvanced(done=done):
                self._board.advance_prefill(done, now_s)
            case StageHealthChanged(stage=stage, state=state):
                self._board.set_health(stage, state, now_s)
        self._outlet.wake()
        return None

    def _take_token(self, event: TokenReceived, now_s: float) -> FinishReason | None:
        delta, finish = self._answer.take(event)
        self._board.count_token(event.residence, now_s)
        # A token without text is delivered too, so that it is acknowledged in order.
        self._outlet.put(Delivery(delta, self.tokens))
        if finish is not None and not self._answer.is_stopped:
            self.flush()
        return finish

    async def _close(self, route: OpenRoute) -> None:
        try:
            async with asyncio.timeout(self._limits.close_s):
                await route.close("generation_over")
        except (MeshnetError, TimeoutError) as error:
            # The stages' own idle timers will end the session.
            logger.warning("a route was not closed in time: %s", type(error).__name__)
