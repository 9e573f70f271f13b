"""One machine that somebody else uses too: what a stream gets beside a third worker and beside foreign programs.

Invariants: situations and ways take turns within a round; everything is loaded once and idle while others are measured;
whoever shares the machine computes during the whole window that is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.llama_routes import DEMO, Arm, LlamaRoute, llama_route
from tests.bench.pairs import Rounds, rounded, traded
from tests.bench.programs import spinning_programs
from tests.bench.progress import BenchProgress
from tests.bench.streams import Stream, p50_p95

TURN, NO_TURN, SPLIT_CORES = "turn", "no_turn", "split_cores"
WAYS: Final = (TURN, NO_TURN, SPLIT_CORES)
UNSPLIT, CONTROL, SPLIT, THIRD = "unsplit", "control", "split", "third"
ALONE: Final = "alone"
TWINS: Final = (f"{TURN}.{UNSPLIT}", f"{TURN}.{CONTROL}")
CUT: Final = (DEMO.layers // 2,)
THREADS: Final = 2
WARM_UP_TOKENS: Final = 32


@dataclass(frozen=True, slots=True)
class Situation:
    """Who else computes on the machine.

    Attributes:
        tokens: of one stream.
        hogs: foreign programs that spin.
        third: whether a worker with the whole model serves another stream meanwhile.
        prompt_rows: that a worker with the whole model computes meanwhile, one prompt after the other.
        slices: that a stream of a round is cut into; arms take turns with them.
        round_s: how long a round takes on two quiet cores; for the time left only.
    """

    name: str
    tokens: int
    hogs: int = 0
    third: bool = False
    prompt_rows: int = 0
    slices: int = 1
    round_s: float = 5.0

    @property
    def is_shared(self) -> bool:
        """Whether another worker computes meanwhile."""
        return self.third or self.prompt_rows > 0

    def fair_share(self, cores: int) -> float:
        """What threads on every core get of their undisturbed rate, at best: each core is shared equally.

        3/4 beside one spinning program on two cores, if the thread beside it had its work taken over; 1/2 beside two.
        """
        return sum(1 / (1 + self._hogs_on(core, cores)) for core in range(cores)) / cores

    def _hogs_on(self, core: int, cores: int) -> int:
        return self.hogs // cores + (core < self.hogs % cores)


SITUATIONS: Final = (
    Situation(ALONE, tokens=40, slices=3, round_s=10.0),
    Situation("third", tokens=40, third=True, round_s=5.0),
    Situation("prompts", tokens=40, prompt_rows=128, round_s=6.0),
    Situation("hog1", tokens=48, hogs=1, round_s=7.0),
    Situation("hog2", tokens=40, hogs=2, round_s=8.0),
)


@dataclass(slots=True)
class Found:
    """What one situation gave, by player: a way and a stream, like `turn.split`."""

    situation: Situation
    rates: Rounds
    gaps_ms: dict[str, list[float]] = field(default_factory=dict)

    def add(self, player: str, rate: float, gaps_ms: list[float]) -> None:
        """Record one stream."""
        self.rates.add(player, rate)
        self.gaps_ms.setdefault(player, []).extend(gaps_ms)

    def of(self, way: str, stream: str) -> list[float]:
        """Tokens per second of one stream, one a round."""
        return self.rates.rates[f"{way}.{stream}"]

    def way(self, way: str) -> dict[str, object]:
        """Rates and gaps of one way's streams, for the last line."""
        own = {player.partition(".")[2]: player for player in self.rates.rates if player.startswith(f"{way}.")}
        return {
            "tokens_per_s": {stream: round(median(self.rates.rates[player]), 2) for stream, player in own.items()},
            "token_gap_ms": {stream: p50_p95(self.gaps_ms[player]) for stream, player in own.items()},
            "rounds": {stream: rounded(self.rates.rates[player]) for stream, player in own.items()},
        }


def window(streams: tuple[Stream, Stream]) -> tuple[float, float]:
    """From when both have begun until the first of them ends: seconds.

    Raises:
        ValueError: they did not compute at the same time.
    """
    begin_s = max(stream.tokens_s[0] for stream in streams)
    end_s = min(stream.tokens_s[-1] for stream in streams)
    if end_s <= begin_s:
        raise ValueError("the streams did not share the machine")
    return begin_s, end_s


def rate_within(stream: Stream, begin_s: float, end_s: float) -> float:
    """Tokens per second of one stream within a window."""
    return sum(begin_s < at <= end_s for at in stream.tokens_s) / (end_s - begin_s)


class TurnBench:
    """Rounds of situations.

    Attributes:
        routes: loaded and warm, by player.
    """

    def __init__(self, routes: dict[str, LlamaRoute], progress: BenchProgress) -> None:
        self.routes = routes
        self._progress = progress

    async def measure(self, situations: list[Situation], rounds: int, budget_s: float) -> dict[str, Found]:
        """Rounds of all situations; fewer where the time is over."""
        deadline_s = time.monotonic() + budget_s
        found = {one.name: Found(one, Rounds(self._players(one))) for one in situations}
        for number in range(rounds):
            for situation in situations if number % 2 == 0 else situations[::-1]:
                await self._round(found[situation.name], number)
                self._progress.advance(situation.round_s)
                last = found[situation.name].rates.rates.items()
                rates = ", ".join(f"{player} {rates[-1]:.1f}" for player, rates in last)
                self._progress.say(f"{situation.name} {number + 1}/{rounds}: {rates} tokens/s")
            if time.monotonic() > deadline_s:
                break
        return found

    def _players(self, situation: Situation) -> tuple[str, ...]:
        if situation.is_shared:
            return tuple(f"{way}.{SPLIT}" for way in WAYS)
        return tuple(self.routes)

    async def _round(self, found: Found, number: int) -> None:
        situation = found.situation
        async with spinning_programs(situation.hogs):
            if situation.is_shared:
                for player in found.rates.order(number):
                    self._progress.now(f"{situation.name} {number + 1} {player}")
                    beside = self._beside_prompts if situation.prompt_rows else self._side_by_side
                    await beside(found, player.partition(".")[0])
                return
            gaps_ms: dict[str, list[float]] = {}
            for part in range(situation.slices):
                for player in found.rates.order(number + part):
                    self._progress.now(f"{situation.name} {number + 1} {player}")
                    route = self.routes[traded(player, number, TWINS)]
                    (stream,) = await route.streams(situation.tokens, 1)
                    gaps_ms.setdefault(player, []).extend(stream.gaps_ms())
            for player, gaps in gaps_ms.items():
                found.add(player, 1000 * len(gaps) / sum(gaps), gaps)

    async def _side_by_side(self, found: Found, way: str) -> None:
        """The split route and a third worker at once. The third has shorter ways, so it is asked for more."""
        tokens = found.situation.tokens
        served = await asyncio.gather(
            self.routes[f"{way}.{SPLIT}"].streams(tokens, 1), self.routes[f"{way}.{UNSPLIT}"].streams(3 * tokens, 1)
        )
        streams = (served[0][0], served[1][0])
        begin_s, end_s = window(streams)
        for name, stream in zip((SPLIT, THIRD), streams, strict=True):
            found.add(f"{way}.{name}", rate_within(stream, begin_s, end_s), stream.gaps_ms(begin_s, end_s))

    async def _beside_prompts(self, found: Found, way: str) -> None:
        """The split route's stream while the third worker computes prompts; those of its rows count that it told of."""
        rows = found.situation.prompt_rows
        serving = asyncio.create_task(self.routes[f"{way}.{SPLIT}"].streams(found.situation.tokens, 1))
        prompts: list[float] = []
        while not serving.done():
            prompts.append(await self.routes[f"{way}.{UNSPLIT}"].prompt_tokens_per_s(rows))
        (stream,) = await serving
        gaps = stream.gaps_ms()
        found.add(f"{way}.{SPLIT}", 1000 * len(gaps) / sum(gaps), gaps)
        found.add(f"{way}.{THIRD}", median(prompts), [1000 * rows / rate for rate in prompts])


@contextlib.asynccontextmanager
async def turn_bench(folder: Path, turn_path: str, progress: BenchProgress) -> AsyncIterator[TurnBench]:
    """Load every way to serve the model, and warm up."""
    cores = sorted(os.sched_getaffinity(0))
    async with contextlib.AsyncExitStack() as stack:
        routes: dict[str, LlamaRoute] = {}
        for way in WAYS:
            threads = 1 if way == SPLIT_CORES else THREADS
            for name in (UNSPLIT, CONTROL, SPLIT) if way == TURN else (UNSPLIT, SPLIT):
                progress.now(f"loading {way} {name}")
                cuts = CUT if name == SPLIT else ()
                # Workers in the order in which they come: both stages' first, then the third one's.
                first = 0 if name == SPLIT else 2
                own = tuple(cores[(first + stage) % len(cores)] for stage in range(len(cuts) + 1))
                arm = Arm(
                    f"{way}-{name}",
                    cuts,
                    turn_path if way == TURN else "",
                    threads,
                    cores=own if way == SPLIT_CORES else (),
                )
                route = await stack.enter_async_context(llama_route(folder, arm))
                await route.streams(WARM_UP_TOKENS, 1)
                routes[f"{way}.{name}"] = route
        yield TurnBench(routes, progress)
