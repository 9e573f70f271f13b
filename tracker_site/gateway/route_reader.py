"""From a route's events to text for the client: the inside of a generation, without money or clients' connections.

Invariants: after the finish nothing is read; every wait for the route has a deadline. Source: docs/wire.md, Finish.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from meshnet.errors import RouteError
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
    from tracker_site.gateway.limits import Limits
    from tracker_site.gateway.outlet import Outlet
    from tracker_site.gateway.ports import OpenRoute


class RouteReader:
    """Reads one open route to its end."""

    def __init__(
        self, admission: Admission, stops: tuple[str, ...], board: TelemetryBoard, outlet: Outlet,
        clock_s: Callable[[], float],
    ) -> None:  # fmt: skip
        with_tokens = admission.request.sampling.logprobs
        self._answer = AnswerText(admission.vocabulary, stops, with_tokens=with_tokens)
        self._board = board
        self._outlet = outlet
        self._clock_s = clock_s

    @property
    def tokens(self) -> int:
        """Received so far."""
        return self._answer.tokens

    async def read(self, route: OpenRoute, limits: Limits) -> FinishReason:
        """Deliver everything up to the finish; return why it ended.

        Raises:
            RouteError: the route failed, stalled or ended early.
            ProtocolError: the tail ran further ahead than it may.
        """
        events = route.events()
        while True:
            reason = self._handle(await self._next(events, limits))
            if reason is not None:
                return reason

    def flush(self) -> None:
        """Deliver text that was held back; no more comes."""
        self._outlet.put_rest(Delivery(self._answer.rest(), self.tokens))

    async def _next(self, events: AsyncIterator[RouteEvent], limits: Limits) -> RouteEvent:
        is_decoding = self._board.phase is Phase.DECODE
        timeout_s = limits.decode_stall_s if is_decoding else limits.prefill_stall_s
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
        # Also without text: a token that only holds text back has to be acknowledged in its turn.
        self._outlet.put(Delivery(delta, self.tokens))
        if finish is not None and not self._answer.is_stopped:
            self.flush()
        return finish
