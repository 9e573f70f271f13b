"""What becomes of a route that nodes refuse, leave unanswered or do not hold, while it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.errors import RouteError
from meshnet.ids import SessionKey
from tests.integration.tracker_site.routes.fake_nodes import N_LAYERS, Shape
from tests.integration.tracker_site.routes.routed_site import (
    a_request,
    cut,
    expected_tokens,
    read,
    whole,
)
from tests.simulators.faults import Faults
from tracker_site.routes.offer_book import CHEAP_S
from tracker_site.routes.planning.request import RouteFailedError

if TYPE_CHECKING:
    from tests.integration.tracker_site.routes.routed_site import SiteMaker


async def test_a_refusing_node_is_planned_around(a_site: SiteMaker) -> None:
    full = whole("full", faults=Faults(refuse_open="kv_exhausted"))
    spare = whole("spare", decode_ms_per_layer=5.0)
    async with a_site(full, spare) as site:
        route = await site.routes.open_route(a_request())
        assert [one.node_id for one in route.stages] == ["spare"]
        assert (await read(route)).tokens == expected_tokens(a_request())
        await route.close("finished")
        await site.settled()


async def test_a_node_that_has_restarted_its_worker_is_asked_again_by_new_offers(a_site: SiteMaker) -> None:
    async with a_site(*cut(3)) as site:
        site.access.reading_s = 2 * CHEAP_S  # so that offers serve for a while
        await (await site.routes.open_route(a_request())).close("finished")
        site.access.restarted = {"n1"}
        route = await site.routes.open_route(a_request())
        assert [one.node_id for one in route.stages] == ["n0", "n1"]
        assert site.node("n1").opened[-1] == SessionKey(route.session, 2)
        assert (await read(route)).tokens == expected_tokens(a_request())
        await route.close("finished")
        await site.settled()


async def test_when_all_refuse_the_reason_is_told(a_site: SiteMaker) -> None:
    async with a_site(whole(faults=Faults(refuse_open="kv_exhausted"))) as site:
        with pytest.raises(RouteFailedError) as caught:
            await site.routes.open_route(a_request())
        assert (caught.value.code, caught.value.stage) == ("kv_exhausted", 0)
        await site.settled()


async def test_missing_layers_are_told(a_site: SiteMaker) -> None:
    async with a_site(Shape("head", 0, 3)) as site:
        with pytest.raises(RouteError, match="layers 3-5") as caught:
            await site.routes.open_route(a_request())
        assert caught.value.code == "no_route"
        await site.settled()


async def test_nodes_with_other_settings_do_not_share_a_route(a_site: SiteMaker) -> None:
    async with a_site(Shape("head", 0, 3), Shape("tail", 3, N_LAYERS, context_length=1024)) as site:
        with pytest.raises(RouteError) as caught:
            await site.routes.open_route(a_request())
        assert caught.value.code == "contract_mismatch"


async def test_a_node_that_does_not_answer_is_planned_around(a_site: SiteMaker) -> None:
    async with a_site(whole("silent"), whole("spare", decode_ms_per_layer=5.0)) as site:
        site.access.silent.add("silent")
        route = await site.routes.open_route(a_request())
        assert [one.node_id for one in route.stages] == ["spare"]
        await route.close("enough")
        await site.settled()


async def test_sessions_that_nodes_have_not_reported_yet_count(a_site: SiteMaker) -> None:
    async with a_site(whole("a"), whole("b", decode_ms_per_layer=1.01)) as site:
        stale = [node.offer() for node in site.access.nodes.values()]

        async def offers(artifact_digest: bytes) -> list[object]:
            return list(stale)

        site.access.offers = offers  # type: ignore[method-assign,assignment]  # a registry between two heartbeats
        routes = [await site.routes.open_route(a_request()) for _ in range(4)]
        assert {route.stages[0].node_id for route in routes} == {"a", "b"}
        for route in routes:
            await route.close("enough")
        await site.settled()
