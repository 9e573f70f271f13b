"""A ring of two workers that serves several sessions, members of other sessions that stall on it, and everybody's rate.

The workers share one machine's compute turn, so that together they have one row's time for every row: what the others
get then depends neither on how their rows happen to be batched nor on a busy machine, only on who takes part.

Invariants: a rate is that of whole windows in which nothing is opened or closed; windows with and without the stalled
members alternate, in an order that turns every round; a round in which the others were slow without any stalled member
says nothing and is done again, a bounded number of times; every wait has a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.generation.progress import TokenReceived
from meshnet.keys import SigningKey
from meshnet.openai.specification import SamplingSpec
from meshnet.shard_facts import Carrier
from tests.integration.tracker_site.relay.process import RELAY_ID, SITE_KEY
from tests.integration.tracker_site.routes.fake_nodes import ARTIFACT, DEADLINE_S, FakeNodes
from tests.integration.tracker_site.routes.native_nodes import NativeNode, NativeShape
from tests.simulators.fake_engine import VOCAB_SIZE
from tests.simulators.fake_shards import N_LAYERS
from tracker_site.routes.planning.request import RouteRequest
from tracker_site.routes.relay_link import RelayLink
from tracker_site.routes.route_parts import RouteParts
from tracker_site.routes.session.deadlines import RouteDeadlines
from tracker_site.routes.site_routes import SiteRoutes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from tracker_site.routes.driver import DrivenRoute

    # What is there during every second window.
    Disturbance = Callable[[], AbstractAsyncContextManager[None]]

OTHERS: Final = 3
ROW_MS: Final = {"direct": 8.0, "relay": 12.0}  # on both workers together; a relayed token costs this process more
WINDOW_S: Final = 1.2
# Of the rate that the workers' row time allows; with less the machine was busy with something else.
QUIET_SHARE: Final = 0.7
TRIES: Final = 6  # as many rounds as are wanted, at most
STILL_S: Final = 0.3
HEAD, TAIL = "head", "tail"
# Of other machines: one stands for the tail of a session whose head is ours, one the other way round.
FROZEN_TAIL, FROZEN_HEAD = "frozen tail", "frozen head"
# Nobody is given up while the stall is measured.
PATIENT: Final = RouteDeadlines(step_min_s=60.0, step_max_s=60.0, grace_s=60.0)


@dataclass
class Session:
    """One generation without an end and whoever reads it."""

    route: DrivenRoute
    acknowledges: bool = True
    at_s: list[float] = field(default_factory=list)

    async def read(self) -> None:
        async for event in self.route.events():
            if isinstance(event, TokenReceived):
                self.at_s.append(time.monotonic())
                if self.acknowledges:
                    self.route.acknowledge(event.index)

    def rate(self, begin_s: float, end_s: float) -> float:
        """Tokens per second between two moments."""
        return sum(begin_s < at_s <= end_s for at_s in self.at_s) / (end_s - begin_s)


@dataclass
class Ring:
    """The site, its nodes, and the sessions that are not to be disturbed."""

    routes: SiteRoutes
    access: FakeNodes
    nodes: dict[str, NativeNode]
    full_rate: float  # tokens per second of all sessions together, by the workers' row time
    others: list[Session] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def session(self, head: str, tail: str, *, acknowledges: bool = True) -> AsyncIterator[Session]:
        """A session on these nodes, for the body's time."""
        self.access.paused = set(self.nodes) - {head, tail}
        prompt = tuple(b"Once upon a time")
        sampling = SamplingSpec(temperature=0.0, seed=1)
        request = RouteRequest(ARTIFACT, N_LAYERS, prompt, 60_000, sampling, (), VOCAB_SIZE)
        session = Session(await self.routes.open_route(request), acknowledges)
        reading = asyncio.create_task(session.read())
        try:
            yield session
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await session.route.close("cancelled")

    @contextlib.asynccontextmanager
    async def stalled_members(self) -> AsyncIterator[None]:
        """Sessions over this ring that all stand still: a reader that takes nothing, a frozen tail, a frozen head."""
        async with contextlib.AsyncExitStack() as stack:
            silent = await stack.enter_async_context(self.session(HEAD, TAIL, acknowledges=False))
            stalled = [silent]
            for head, tail, frozen in ((HEAD, FROZEN_TAIL, FROZEN_TAIL), (FROZEN_HEAD, TAIL, FROZEN_HEAD)):
                stalled.append(await stack.enter_async_context(self.session(head, tail)))
                await until(lambda one=stalled[-1]: len(one.at_s) >= 2)
                self.nodes[frozen].freeze()
                stack.callback(self.nodes[frozen].resume)
            await until(lambda: len(silent.at_s) == TOKEN_ACK_WINDOW)
            await until(lambda: all(time.monotonic() - session.at_s[-1] > STILL_S for session in stalled))
            before = [len(session.at_s) for session in stalled]
            yield
            after = [len(session.at_s) for session in stalled]
            assert after == before, "a stalled member went on: nothing was measured"

    @contextlib.asynccontextmanager
    async def taking_part(self) -> AsyncIterator[None]:
        """The control: a member that does not stall, and so takes its share from the others."""
        async with self.session(HEAD, TAIL) as session:
            await until(lambda: len(session.at_s) >= 2)
            yield

    async def until_still(self) -> None:
        """Wait until what was on its way to the others has arrived, and nothing follows it."""
        await until(lambda: all(time.monotonic() - other.at_s[-1] > STILL_S for other in self.others))

    async def rates(self) -> list[float]:
        """Tokens per second of each of the others, over one window."""
        begin_s = time.monotonic()
        await asyncio.sleep(WINDOW_S)  # the window itself
        end_s = time.monotonic()
        return [other.rate(begin_s, end_s) for other in self.others]

    async def compare(self, disturbance: Disturbance, rounds: int) -> Comparison:
        """Rates with and without a disturbance, window by window, of `rounds` quiet rounds."""
        comparison = Comparison()
        for number in range(rounds * TRIES):
            rates = {}
            for is_disturbed in (number % 2 == 0, number % 2 == 1):
                async with disturbance() if is_disturbed else contextlib.nullcontext():
                    rates[is_disturbed] = await self.rates()
            if sum(rates[False]) < QUIET_SHARE * self.full_rate:
                comparison.noisy_rounds += 1
                continue
            comparison.disturbed.append(rates[True])
            comparison.undisturbed.append(rates[False])
            if len(comparison.disturbed) == rounds:
                return comparison
        raise AssertionError(f"too noisy: {comparison.noisy_rounds} of {rounds * TRIES} rounds were slow undisturbed")


@dataclass
class Comparison:
    """Rates by window and session, tokens per second."""

    undisturbed: list[list[float]] = field(default_factory=list)
    disturbed: list[list[float]] = field(default_factory=list)
    noisy_rounds: int = 0

    def kept(self) -> float:
        """Median over the rounds of what the others together keep of their rate."""
        return _ratio(list(map(sum, self.disturbed)), list(map(sum, self.undisturbed)))

    def worst_kept(self) -> float:
        """The same of the session that keeps least."""
        sessions = zip(zip(*self.disturbed, strict=True), zip(*self.undisturbed, strict=True), strict=True)
        return min(_ratio(disturbed, undisturbed) for disturbed, undisturbed in sessions)

    def describe(self) -> str:
        """Figures for a person."""
        with_them, without = (median(map(sum, rates)) for rates in (self.disturbed, self.undisturbed))
        return (
            f"{with_them:.1f} tokens/s instead of {without:.1f}: {self.kept():.3f} of their rate, "
            f"the slowest {self.worst_kept():.3f} "
            f"({len(self.disturbed)} pairs of {WINDOW_S:g} s, {self.noisy_rounds} more too noisy)"
        )


def _ratio(disturbed: Sequence[float], undisturbed: Sequence[float]) -> float:
    return median(one / other for one, other in zip(disturbed, undisturbed, strict=True))


async def until(condition: Callable[[], bool]) -> None:
    """Poll to a deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - counters give no event
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def a_ring(folder: Path, relay_url: str, carrier: str) -> AsyncIterator[Ring]:
    """Four nodes on a relay, and the others' sessions on two of them, warm."""
    policy = Carrier.RELAY if carrier == "relay" else Carrier.AUTO
    half = N_LAYERS // 2
    step_us = round(ROW_MS[carrier] * 1000 / N_LAYERS)
    turn_path = str(folder / "compute.turn")
    shapes = [
        NativeShape(HEAD, 0, half, step_us, turn_path, policy),
        NativeShape(TAIL, half, N_LAYERS, step_us, turn_path, policy),
        NativeShape(FROZEN_TAIL, half, N_LAYERS, step_us, carrier=policy),
        NativeShape(FROZEN_HEAD, 0, half, step_us, carrier=policy),
    ]
    async with contextlib.AsyncExitStack() as stack:
        running = [await stack.enter_async_context(NativeNode.running(one, folder, relay_url)) for one in shapes]
        access = FakeNodes(*running)
        link = RelayLink(relay_url, SigningKey.generate())
        parts = RouteParts(link=link, nodes=access, site_key=SITE_KEY, relay_id=RELAY_ID, deadlines=PATIENT)
        routes = SiteRoutes(parts)
        stack.push_async_callback(routes.close)
        ring = Ring(routes, access, access.nodes, 1000 / ROW_MS[carrier])
        for _ in range(OTHERS):
            ring.others.append(await stack.enter_async_context(ring.session(HEAD, TAIL)))
        await until(lambda: all(len(other.at_s) >= 4 for other in ring.others))
        yield ring
