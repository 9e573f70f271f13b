"""Whole routes over a real relay: the driver, the machine and simulated workers, one and several stages."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from meshnet.errors import RouteError
from meshnet.frame import Codec
from meshnet.generation.progress import PrefillAdvanced, TokenReceived
from meshnet.ids import SessionKey
from meshnet.keys import SigningKey
from meshnet.openai.events import FinishReason
from meshnet.openai.specification import SamplingSpec
from meshnet.sampling import SamplingTerms, sample
from tests.integration.relay.process import RELAY_ID, SITE_KEY, a_relay, a_shared_relay
from tests.integration.routes.fake_nodes import ARTIFACT, DEADLINE_S, N_LAYERS, FakeNodes, Node, Shape
from tests.simulators.fake_engine import DEFAULT_WIDTH, END_TOKEN_ID, VOCAB_SIZE, FakeSequence, FakeShard, logits_of
from tests.simulators.faults import Faults
from tracker_site.nodes.control import StageNews
from tracker_site.routes.deadlines import RouteDeadlines
from tracker_site.routes.relay_link import RelayLink
from tracker_site.routes.request import RouteFailedError, RouteRequest
from tracker_site.routes.route_parts import RouteParts
from tracker_site.routes.site_routes import SiteRoutes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from tracker_site.routes.driver import DrivenRoute

    SiteMaker = Callable[..., AbstractAsyncContextManager["Site"]]

PROMPT = tuple(b"The quick brown fox jumps over the lazy dog. " * 12)  # 540 tokens: 5 chunks
DEADLINES = RouteDeadlines(relay_s=1.0, open_s=2.0, step_min_s=0.8, margin_s=0.3)


@dataclass
class Site:
    routes: SiteRoutes
    parts: RouteParts
    access: FakeNodes

    def node(self, name: str) -> Node:
        return self.access.nodes[name]

    async def settled(self) -> None:
        """Every trace of every route is gone, on the site and on the nodes."""
        await self.parts.drained()
        await until(lambda: not any(node.sessions for node in self.access.nodes.values()))
        assert (self.routes.live, self.parts.link.sessions) == (0, 0)
        assert sum(self.parts.load.values()) == 0


@asynccontextmanager
async def site_on(relay_url: str, *shapes: Shape) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(Node(shape).running(relay_url)) for shape in shapes]
        access = FakeNodes(*nodes)
        parts = RouteParts(
            link=RelayLink(relay_url, SigningKey.generate()),
            nodes=access,
            site_key=SITE_KEY,
            relay_id=RELAY_ID,
            deadlines=DEADLINES,
        )
        routes = SiteRoutes(parts)
        try:
            yield Site(routes, parts, access)
        finally:
            async with asyncio.timeout(DEADLINE_S):
                await routes.close()


@pytest.fixture(scope="module")
def relay_url() -> Iterator[str]:
    with a_shared_relay() as url:
        yield url


@pytest.fixture
def a_site(relay_url: str) -> SiteMaker:
    """Makes a site with nodes of these shapes, on the module's relay."""
    return partial(site_on, relay_url)


def whole(name: str = "whole", **changes: object) -> Shape:
    return replace(Shape(name), **changes)  # type: ignore[arg-type]  # a test's builder


def cut(*bounds: int, **faults: Faults) -> list[Shape]:
    """Shards between bounds, named n0, n1, ..."""
    ends = [0, *bounds, N_LAYERS]
    return [
        Shape(f"n{number}", begin, end, faults.get(f"n{number}", Faults()))
        for number, (begin, end) in enumerate(itertools.pairwise(ends))
    ]


def a_request(prompt: tuple[int, ...] = PROMPT, max_tokens: int = 40, **sampling: object) -> RouteRequest:
    spec = replace(SamplingSpec(temperature=0.0, seed=3), **sampling)  # type: ignore[arg-type]  # a test's builder
    return RouteRequest(ARTIFACT, N_LAYERS, prompt, max_tokens, spec, (END_TOKEN_ID,), VOCAB_SIZE)


def expected_tokens(request: RouteRequest) -> list[int]:
    """What the FakeEngine computes for this request in one piece."""
    sequence = FakeSequence(FakeShard(N_LAYERS, DEFAULT_WIDTH, 0, N_LAYERS))
    terms = SamplingTerms(temperature=request.sampling.temperature, seed=request.sampling.seed or 0)
    row = sequence.step_tokens(request.prompt_tokens)[-1]
    tokens: list[int] = []
    while True:
        tokens.append(sample(logits_of(row), terms, {}, len(request.prompt_tokens) + len(tokens)))
        if tokens[-1] in request.end_tokens or len(tokens) == request.max_tokens:
            return tokens
        (row,) = sequence.step_tokens([tokens[-1]])


@dataclass
class Read:
    """What a reader has seen of a route."""

    tokens: list[int]
    finish: FinishReason | None
    progress: list[int]


async def read_into(seen: Read, route: DrivenRoute, *, at_most: int = 10_000, acknowledges: bool = True) -> None:
    """Read to the end, as a client that keeps up where it acknowledges."""
    async with asyncio.timeout(DEADLINE_S):
        async for event in route.events():
            match event:
                case TokenReceived():
                    seen.tokens.append(event.token_id)
                    seen.finish = event.finish
                    if acknowledges:
                        route.acknowledge(event.index)
                    if len(seen.tokens) == at_most:
                        break
                case PrefillAdvanced(done):
                    seen.progress.append(done)


async def read(route: DrivenRoute, *, at_most: int = 10_000) -> Read:
    seen = Read([], None, [])
    await read_into(seen, route, at_most=at_most)
    return seen


async def until(condition: Callable[[], bool]) -> None:
    """Let everything else run until `condition` holds."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - what it asks for has no event
            await asyncio.sleep(0)


async def failure(route: DrivenRoute) -> RouteFailedError:
    with pytest.raises(RouteFailedError) as caught:
        await read(route)
    return caught.value


CUTS = [[], [3], [1], [5], [2, 4], [1, 2, 3, 4, 5]]


# --- whole generations ---


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


# --- readers ---


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


# --- refusals ---


async def test_a_refusing_node_is_planned_around(a_site: SiteMaker) -> None:
    full = whole("full", faults=Faults(refuse_open="kv_exhausted"))
    spare = whole("spare", decode_ms_per_layer=5.0)
    async with a_site(full, spare) as site:
        route = await site.routes.open_route(a_request())
        assert [one.node_id for one in route.stages] == ["spare"]
        assert (await read(route)).tokens == expected_tokens(a_request())
        await route.close("finished")
        await site.settled()


async def test_a_node_that_has_restarted_its_worker_is_asked_again(a_site: SiteMaker) -> None:
    async with a_site(*cut(3)) as site:
        site.access.stale = {"n1": b"0" * 32}
        route = await site.routes.open_route(a_request())
        assert [one.node_id for one in route.stages] == ["n0", "n1"]
        assert site.node("n1").opened == [SessionKey(route.session, 2)]
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


# --- losses ---


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
