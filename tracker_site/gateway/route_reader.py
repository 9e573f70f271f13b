"""From a route's events to text for the client: the inside of a generation, without money or clients' connections.

Invariants: the gateway believes no token that cannot be: indices are consecutive, ids are of the vocabulary, at most
`max_tokens` come, log probabilities are numbers. After the finish nothing is read. Source: docs/wire.md, Finish.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from meshnet.errors import ProtocolError, RouteError
from meshnet.openai.completion_text import CompletionText
from meshnet.openai.events import Alternative, FinishReason, GeneratedToken, TextDelta
from meshnet.openai.telemetry import Phase
from tracker_site.gateway.outlet import Delivery
from tracker_site.routes.request import PrefillAdvanced, StageHealthChanged, TokenReceived

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from meshnet.vocab import Vocabulary
    from tracker_site.gateway.admission import Admission
    from tracker_site.gateway.limits import Limits
    from tracker_site.gateway.outlet import Outlet
    from tracker_site.gateway.ports import OpenRoute
    from tracker_site.gateway.telemetry_board import TelemetryBoard
    from tracker_site.routes.request import RouteEvent


class RouteReader:
    """Reads one open route to its end."""

    def __init__(
        self, admission: Admission, stops: tuple[str, ...], board: TelemetryBoard, outlet: Outlet,
        clock_s: Callable[[], float],
    ) -> None:  # fmt: skip
        self._request = admission.request
        self._vocabulary: Vocabulary = admission.vocabulary
        self._text = CompletionText(stops, with_tokens=admission.request.sampling.logprobs)
        self._board = board
        self._outlet = outlet
        self._clock_s = clock_s
        self.tokens = 0

    async def read(self, route: OpenRoute, limits: Limits) -> FinishReason:
        """Deliver everything up to the finish; return why it ended.

        Raises:
            RouteError: the route failed, stalled or ended early.
            ProtocolError: the tail sent what cannot be.
        """
        events = route.events()
        while True:
            reason = self._handle(await self._next(events, limits))
            if reason is not None:
                return reason

    def flush(self) -> None:
        """Deliver text that was held back; no more comes."""
        self._outlet.put_rest(Delivery(self._text.finish(), self.tokens))

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
        self._check(event)
        self.tokens += 1
        self._board.count_token(event.residence, now_s)
        is_end = event.finish is FinishReason.STOP
        delta = TextDelta("") if is_end else self._text.push(self._generated_token(event))
        # Also without text: a token that only holds text back has to be acknowledged in its turn.
        self._outlet.put(Delivery(delta, self.tokens))
        if self._text.is_stopped:
            return FinishReason.STOP
        if event.finish is not None:
            self.flush()
        return event.finish

    def _generated_token(self, event: TokenReceived) -> GeneratedToken:
        piece = self._vocabulary.piece
        return GeneratedToken(
            token_id=event.token_id,
            piece=piece(event.token_id),
            logprob=event.logprob,
            alternatives=tuple(
                Alternative(token_id, piece(token_id), logprob) for token_id, logprob in event.top_logprobs
            ),
        )

    def _check(self, event: TokenReceived) -> None:
        if event.index != self.tokens:
            raise _impossible("sequence_gap", f"The tail sent token {event.index} where {self.tokens} was due.")
        if self.tokens >= self._request.max_tokens:
            raise _impossible("wrong_position", f"The tail sent more than {self._request.max_tokens} tokens.")
        ids = [event.token_id, *(token_id for token_id, _logprob in event.top_logprobs)]
        if not all(0 <= token_id < self._request.vocabulary_size for token_id in ids):
            raise _impossible("bad_token_id", "The tail sent a token id that is not of the vocabulary.")
        logprobs = [event.logprob or 0.0, *(logprob for _token_id, logprob in event.top_logprobs)]
        if any(math.isnan(logprob) or logprob == math.inf for logprob in logprobs):
            raise _impossible("not_finite", "The tail sent a log probability that is not a number.")


def _impossible(code: str, message: str) -> ProtocolError:
    return ProtocolError(code, "Impossible token", message)
