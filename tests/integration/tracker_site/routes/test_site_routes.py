"""Whole routes over a real relay: the driver, the machine and simulated workers, one and several stages."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from meshnet.frame import Codec
from meshnet.generation.progress import TokenReceived
from meshnet.openai.events import FinishReason
from tests.integration.tracker_site.routes.fake_nodes import N_LAYERS
from tests.integration.tracker_site.routes.routed_site import (
    PROMPT,
    Read,
    a_request,
    cut,
    expected_tokens,
    read,
    read_into,
    until,
    whole,
)
from tests.simulators.fake_engine import END_TOKEN_ID
from tracker_site.routes.planning.request import RouteFailedError

if TYPE_CHECKING:
    from tests.integration.tracker_site.routes.routed_site import SiteMaker

CUTS = [[], [3], [1], [5], [2, 4], [1, 2, 3, 4, 5]]


@pytest.mark.parametrize("bounds", CUTS, ids=lambda bounds: f"{len(bounds) + 1}-stages-{bounds}")
async def test_every_cut_gives_the_tokens_of_the_whole_model(a_site: SiteMaker, bounds: list[int]) -> None:
    request = a_request()
    async with a_site(*cut(*bounds)) as site:
        route = await site.routes.open_route(request)
        assert [(one.layer_begin, one.layer_end) for one in route.stages] == list(
            zip([0, *bounds], [*bounds, N_LAYERS], strict=True)
        )
        seen = await read(route)
        await route.close("finished")
        await site.settled()
    expected = expected_tokens(request)
    assert seen.tokens == expected
    assert seen.finish is (FinishReason.STOP if expected[-1] == END_TOKEN_ID else FinishReason.LENGTH)
    assert (sorted(seen.progress), seen.progress[-1]) == (seen.progress, len(PROMPT))


@pytest.mark.parametrize("is_exact", [True, False])
async def test_a_site_that_promises_equal_bits_keeps_the_cut(a_site: SiteMaker, is_exact: bool) -> None:
    """By default a prompt is cut for its route: here steps are nearly all fixed cost, so large chunks are chosen."""
    request = a_request()
    async with a_site(*cut(3)) as site:
        site.parts.is_exact = is_exact
        route = await site.routes.open_route(request)
        seen = await read(route)
        await route.close("finished")
        await site.settled()
    assert seen.tokens == expected_tokens(request)
    assert seen.progress == ([128, 256, 384, 512, 540] if is_exact else [512, 540])


async def test_sampling_and_alternatives_come_through(a_site: SiteMaker) -> None:
    request = a_request(PROMPT[:5], 12, temperature=1.5, logprobs=True, top_logprobs=3)
    async with a_site(*cut(3)) as site:
        route = await site.routes.open_route(request)
        tokens: list[TokenReceived] = []
        async for event in route.events():
            if isinstance(event, TokenReceived):
                tokens.append(event)
                route.acknowledge(event.index)
        await route.close("finished")
    assert [token.token_id for token in tokens] == expected_tokens(request)
    for token in tokens:
        assert token.logprob is not None
        assert len(token.top_logprobs) == 3
        assert [stage for stage, _ in token.residence] == [0, 1]


async def test_stages_say_who_they_are(a_site: SiteMaker) -> None:
    async with a_site(*cut(3)) as site:
        route = await site.routes.open_route(a_request())
        first = route.stages[0]
        assert (first.node_id, first.node_name, first.owner_id, first.carrier) == ("n0", "n0's name", 2, "relay")
        await route.close("enough")
        await site.settled()


@pytest.mark.parametrize("coarsest", Codec)
async def test_rows_over_slow_lines_are_packed_where_the_model_allows(a_site: SiteMaker, coarsest: Codec) -> None:
    shapes = [replace(shape, width=64, upload_bytes_per_s=100) for shape in cut(2, 4)]
    request = replace(a_request(PROMPT[:140], 12), coarsest_codec=coarsest, end_tokens=())
    async with a_site(*shapes) as site:
        route = await site.routes.open_route(request)
        shown = [(one.seam_codec, one.seam_bytes_per_token) for one in route.stages]
        seen = await read(route)
        await route.close("finished")
        exact = await site.routes.open_route(replace(request, is_exact=True))
        shown_exact = [one.seam_codec for one in exact.stages]
        seen_exact = await read(exact)
        await exact.close("finished")
        await site.settled()
    row_bytes = coarsest.packed_bytes(64)
    assert shown == [(coarsest.label, row_bytes), (coarsest.label, row_bytes), ("", 0)]
    assert len(seen.tokens) == 12
    # The FakeEngine tells any difference of a row.
    assert (seen.tokens == seen_exact.tokens) == (coarsest is Codec.RAW)
    assert shown_exact == ["raw", "raw", ""]


async def test_many_routes_share_nodes_and_one_connection(a_site: SiteMaker) -> None:
    requests = [a_request((*PROMPT[: 50 + 30 * number], number), 20) for number in range(8)]
    async with a_site(*cut(3)) as site:
        routes = await asyncio.gather(*(site.routes.open_route(request) for request in requests))
        seen = await asyncio.gather(*(read(route) for route in routes))
        await asyncio.gather(*(route.close("finished") for route in routes))
        await site.settled()
    assert [one.tokens for one in seen] == [expected_tokens(request) for request in requests]


async def test_a_hundred_routes_some_cancelled_leave_nothing(a_site: SiteMaker) -> None:
    async with a_site(*cut(3)) as site:
        for number in range(100):
            route = await site.routes.open_route(a_request(PROMPT[: 5 + number], 5))
            await read(route, at_most=2 if number % 3 == 0 else 10)
            await route.close("enough")
            await route.close("again")
        await site.settled()
        left = [task for task in asyncio.all_tasks() if "route" in task.get_name()]
        assert [task.get_name() for task in left] == ["route news"]


async def test_a_cancelled_route_is_closed_on_every_stage_at_once(a_site: SiteMaker) -> None:
    async with a_site(*cut(2, 4)) as site:
        route = await site.routes.open_route(a_request(max_tokens=1000))
        await read(route, at_most=3)
        started_s = time.monotonic()
        await route.close("client_gone")
        await site.settled()
        assert time.monotonic() - started_s < 1.0
        assert all(node.closed == node.opened for node in site.access.nodes.values())


async def test_a_reader_that_takes_nothing_stops_the_tail_at_its_window(a_site: SiteMaker) -> None:
    async with a_site(whole()) as site:
        request = a_request(PROMPT[:3], 1000)
        expected = expected_tokens(request)
        assert len(expected) > 40, "the story needs a long answer"
        route = await site.routes.open_route(request)
        seen = Read([], None, [])
        with pytest.raises(RouteFailedError, match="gateway_lost"):
            await read_into(seen, route, acknowledges=False)
        assert len(seen.tokens) == 32
        await site.settled()


async def test_giving_up_while_a_node_does_not_answer_closes_what_was_opened(a_site: SiteMaker) -> None:
    async with a_site(*cut(3)) as site:
        site.access.silent.add("n1")
        opening = asyncio.create_task(site.routes.open_route(a_request()))
        await until(lambda: bool(site.node("n0").opened))
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await site.settled()
        assert site.node("n0").closed
