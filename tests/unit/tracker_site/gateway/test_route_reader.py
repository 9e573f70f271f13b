"""What comes of a route is delivered within its bounds; its tokens have been checked before (`token_book`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from meshnet.errors import ProtocolError
from meshnet.frame import Codec
from meshnet.generation.progress import StageHealthChanged, TokenReceived
from meshnet.generation.telemetry_board import TelemetryBoard
from meshnet.openai.telemetry import StageState
from meshnet.vocab import ByteVocabulary
from tests.unit.tracker_site.gateway.stand_ins import MODEL, MemoryLedger, MemoryRecords, chat
from tracker_site.gateway.admission import admit
from tracker_site.gateway.outlet import Outlet
from tracker_site.gateway.parts import Parts
from tracker_site.gateway.route_reader import RouteReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from meshnet.generation.progress import RouteEvent
    from tracker_site.routes.planning.request import RouteRequest, RouteStage


class Recited:
    """A route that recites given events."""

    def __init__(self, *events: RouteEvent) -> None:
        self.stages: list[RouteStage] = []
        self._events = events

    async def events(self) -> AsyncIterator[RouteEvent]:
        for event in self._events:
            yield event

    def acknowledge(self, index: int) -> None: ...

    async def close(self, reason: str) -> None: ...


class Reciting:
    """Opens that route."""

    def __init__(self, *events: RouteEvent) -> None:
        self._events = events

    async def open_route(self, request: RouteRequest) -> Recited:
        return Recited(*self._events)

    async def warm_up(self) -> None: ...

    async def close(self) -> None: ...


async def read(*events: RouteEvent, max_tokens: int = 3, capacity: int = 64) -> None:
    admission = admit(chat(max_tokens=max_tokens), MODEL, ByteVocabulary(512), (1, 2), 0, max_tokens_default=9)
    parts = Parts(Reciting(*events), MemoryLedger(), MemoryRecords(), clock_s=lambda: 0.0)
    reader = RouteReader(parts, admission, (), TelemetryBoard("id", 0.0), Outlet(capacity, lambda _tokens: None))
    await reader.run(lambda: None)


def test_a_route_may_be_packed_as_far_as_its_model_allows() -> None:
    for model in (MODEL, replace(MODEL, coarsest_codec=Codec.Q8_0)):
        request = admit(chat(max_tokens=3), model, ByteVocabulary(512), (1, 2), 0, max_tokens_default=9).request
        assert (request.coarsest_codec, request.is_exact) == (model.coarsest_codec, False)
    assert MODEL.coarsest_codec is Codec.RAW


def test_a_route_knows_where_its_model_may_be_cut() -> None:
    for cuts in (None, frozenset({2})):
        model = replace(MODEL, legal_cuts=cuts)
        request = admit(chat(max_tokens=3), model, ByteVocabulary(512), (1, 2), 0, max_tokens_default=9).request
        assert request.legal_cuts == cuts


def tokens(count: int) -> list[TokenReceived]:
    return [TokenReceived(index, 65) for index in range(count)]


async def test_more_tokens_than_the_window_allows() -> None:
    with pytest.raises(ProtocolError) as caught:
        await read(*tokens(50), max_tokens=100, capacity=40)
    assert caught.value.code == "window_exceeded"


async def test_news_of_a_stage_that_does_not_exist_is_ignored() -> None:
    with pytest.raises(Exception, match="route_ended"):
        await read(StageHealthChanged(5, StageState.LATE))
