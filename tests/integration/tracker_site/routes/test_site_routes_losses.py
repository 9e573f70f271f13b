"""What becomes of a route that loses a stage, a node or the relay on its way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from meshnet.errors import RouteError
from tests.integration.tracker_site.relay.process import a_relay
from tests.integration.tracker_site.routes.fake_nodes import Node
from tests.integration.tracker_site.routes.routed_site import (
    a_request,
    cut,
    expected_tokens,
    failure,
    read,
    site_on,
    until,
    whole,
)
from tests.simulators.faults import Faults
from tracker_site.control_plane.control import StageNews

if TYPE_CHECKING:
    from tests.integration.tracker_site.routes.routed_site import SiteMaker


@pytest.mark.parametrize("lost", [0, 1, 2])
async def test_a_killed_stage_is_named_at_once_and_the_others_are_freed(a_site: SiteMaker, lost: int) -> None:
    async with a_site(*cut(2, 4)) as site:
        route = await site.routes.open_route(a_request(max_tokens=1000))
        await read(route, at_most=3)
        started_s = time.monotonic()
        site.node(f"n{lost}").kill()
        error = await failure(route)
        assert time.monotonic() - started_s < 1.0
        assert (error.code, error.stage) == ("stage_lost", lost)
        await route.close("failed")
        survivors = [node for number, node in enumerate(site.access.nodes.values()) if number != lost]
        await until(lambda: not any(node.sessions for node in survivors))


@pytest.mark.parametrize("at", [10, 545])
@pytest.mark.parametrize("stage", [0, 1])
async def test_a_stage_that_stops_computing_is_named_within_its_deadline(
    a_site: SiteMaker, at: int, stage: int
) -> None:
    faults = {f"n{stage}": Faults(stall_at_position=at)}
    async with a_site(*cut(3, **faults)) as site:
        route = await site.routes.open_route(a_request(max_tokens=1000))
        error = await failure(route)
        assert (error.code, error.stage) == ("step_timeout", stage)


async def test_a_member_that_stalls_in_a_ring_holds_nobody_else_back(a_site: SiteMaker) -> None:
    request = a_request(max_tokens=200)
    async with a_site(*cut(3), whole("other", decode_ms_per_layer=50.0)) as site:
        stalled = await site.routes.open_route(a_request(max_tokens=1000))
        site.access.paused.add("n0")
        other = await site.routes.open_route(request)
        await read(stalled, at_most=3)
        site.node("n1").is_stopped = True
        assert (await read(other)).tokens == expected_tokens(request)
        error = await failure(stalled)
        assert (error.code, error.stage) == ("step_timeout", 1)
        await other.close("finished")


async def test_an_engine_that_fails_is_named(a_site: SiteMaker) -> None:
    async with a_site(*cut(3, n1=Faults(fail_at_position=545))) as site:
        route = await site.routes.open_route(a_request(max_tokens=1000))
        error = await failure(route)
        assert (error.code, error.stage) == ("engine_failed", 1)
        await route.close("failed")
        await site.settled()


@pytest.mark.parametrize(
    ("faults", "code"),
    [(Faults(bad_token_at_index=2), "bad_token_id"), (Faults(skip_token_at_index=2), "sequence_gap")],
)
async def test_a_lying_tail_is_named(a_site: SiteMaker, faults: Faults, code: str) -> None:
    async with a_site(*cut(3, n1=faults)) as site:
        route = await site.routes.open_route(a_request(max_tokens=1000))
        error = await failure(route)
        assert (error.code, error.stage) == (code, 1)
        await route.close("failed")
        await site.settled()


async def test_a_session_that_ends_on_its_node_ends_the_route(a_site: SiteMaker) -> None:
    async with a_site(*cut(3)) as site:
        route = await site.routes.open_route(a_request(max_tokens=1000))
        await read(route, at_most=1)
        key = site.node("n1").opened[-1]
        await site.access.news.put(StageNews("stage_ended", "n1", key, 1, "idle", "nothing came"))
        error = await failure(route)
        assert (error.code, error.stage) == ("idle", 1)
        await route.close("failed")
        await site.settled()


async def test_a_lost_control_connection_alone_ends_nothing(a_site: SiteMaker) -> None:
    request = a_request()
    async with a_site(*cut(3)) as site:
        route = await site.routes.open_route(request)
        key = site.node("n1").opened[-1]
        await site.access.news.put(StageNews("node_gone", "n1", key, None, "stage_lost", "gone"))
        assert (await read(route)).tokens == expected_tokens(request)
        await route.close("finished")


async def test_a_relay_that_dies_ends_its_routes_and_a_new_one_serves_the_next() -> None:
    async with a_relay() as relay, site_on(relay.url, whole()) as site:
        route = await site.routes.open_route(a_request(max_tokens=1000))
        await read(route, at_most=1)
        relay.process.kill()
        error = await failure(route)
        assert (error.stage, error.code) == (None, "connection_lost")
        with pytest.raises(RouteError) as caught:
            await site.routes.open_route(a_request())
        assert caught.value.code == "relay_unavailable"
        async with a_relay("--port", str(relay.port)), Node(whole("again")).running(relay.url) as node:
            site.access.nodes = {"again": node}
            again = await site.routes.open_route(a_request())
            assert (await read(again)).tokens == expected_tokens(a_request())
            await again.close("finished")


async def test_a_failed_route_harms_no_other(a_site: SiteMaker) -> None:
    request = a_request(max_tokens=60)
    async with a_site(*cut(3), whole("spare", decode_ms_per_layer=50.0)) as site:
        doomed = await site.routes.open_route(a_request(max_tokens=1000))
        other = await site.routes.open_route(request)
        await read(doomed, at_most=1)
        key = site.node("n0").opened[0]
        site.node("n0").close(key)
        error = await failure(doomed)
        assert error.stage == 0
        assert (await read(other)).tokens == expected_tokens(request)
        await other.close("finished")
        await doomed.close("failed")
        await site.settled()
