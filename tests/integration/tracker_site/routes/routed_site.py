"""A site's routes over a real relay to simulated nodes, and what a reader sees of them."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from meshnet.generation.progress import PrefillAdvanced, TokenReceived
from meshnet.keys import SigningKey
from meshnet.openai.events import FinishReason
from meshnet.openai.specification import SamplingSpec
from meshnet.sampling import SamplingTerms, sample
from tests.integration.tracker_site.relay.process import RELAY_ID, SITE_KEY
from tests.integration.tracker_site.routes.fake_nodes import ARTIFACT, DEADLINE_S, N_LAYERS, FakeNodes, Node, Shape
from tests.simulators.fake_engine import DEFAULT_WIDTH, END_TOKEN_ID, VOCAB_SIZE, FakeSequence, FakeShard, logits_of
from tests.simulators.faults import Faults
from tracker_site.routes.planning.request import RouteFailedError, RouteRequest
from tracker_site.routes.relay_link import RelayLink
from tracker_site.routes.route_parts import RouteParts
from tracker_site.routes.session.deadlines import RouteDeadlines
from tracker_site.routes.site_routes import SiteRoutes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
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
