"""Many streams at once on the demo's model, against llama.cpp's own server. `make bench-batch`.

    python -m tests.bench.batch [--rounds N] [--streams N ...]

1, 2, 4, 8 and 16 streams through one stage, through two stages of one machine (two threads each, the compute turn on),
and through `llama-server` with as many slots and two threads, built with the worker's flags; then a newcomer with a
long prompt while others decode. The same process takes the tokens of all. Arms take turns within a round; `control` is
the first arm against its twin. Rates run from the first asking to the last token: from the first token on, an arm that
happens to compute all prompts in one step would have them for nothing. The last line is one JSON object; exit status 3
where something cannot be concluded: the control says so for a number of streams, or there were too few rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.conclusion import conclude
from tests.bench.llama_cpp import OURS, program
from tests.bench.llama_routes import CONTEXT_LENGTH, DEMO, Arm, llama_route
from tests.bench.llama_server import llama_server
from tests.bench.pairs import ROUNDS_MIN, Rounds, farthest_from_one, is_outside_band, rounded, traded
from tests.bench.programs import in_own_thread
from tests.bench.progress import BenchProgress, bench_progress
from tests.bench.streams import Newcomer, Stream, gaps_around, p50_p95, served_rate

STREAMS: Final = (1, 2, 4, 8, 16)
ONE, TWIN, TWO, SERVER = "one_stage", "control", "two_stages", "llama_server"
ARMS: Final = (ONE, TWIN, TWO, SERVER)
THREADS: Final = 2
# Of one run of all streams together; a stream has its share, and so many at least.
TOKENS: Final = 240
STREAM_TOKENS_MIN: Final = 24
NEWCOMER: Final = Newcomer(prompt_tokens=384)
NEWCOMER_AMONG: Final = 4
NEWCOMER_TOKENS: Final = 90
ROUND_S: Final = 10.5
NEWCOMER_ROUND_S: Final = 25.0
ROUNDS_FEWEST: Final = 2
BUDGET_S: Final = 540.0
# llama.cpp's server keeps a core spinning for about 0.3 s after its last token.
REST_S: Final = 0.5

Serve = Callable[[int, int], Awaitable[list[Stream]]]
Disturb = Callable[[int, int, Newcomer], Awaitable[tuple[list[Stream], Stream]]]


@dataclass(slots=True)
class Level:
    """What so many streams were like.

    Attributes:
        gaps_ms: between a stream's tokens, of all rounds, by arm.
        first_ms: until a stream's first token.
    """

    streams: int
    rates: Rounds = field(default_factory=lambda: Rounds(ARMS))
    gaps_ms: dict[str, list[float]] = field(default_factory=dict)
    first_ms: dict[str, list[float]] = field(default_factory=dict)

    def add(self, arm: str, streams: list[Stream]) -> None:
        """Record one run."""
        self.rates.add(arm, served_rate(streams))
        self.gaps_ms.setdefault(arm, []).extend(gap for stream in streams for gap in stream.gaps_ms())
        self.first_ms.setdefault(arm, []).extend(stream.first_ms for stream in streams)

    def report(self) -> dict[str, object]:
        """For the last line."""
        return {
            "one_stage_vs_llama_server": round(self.rates.ratio(ONE, SERVER), 4),
            "two_stages_vs_llama_server": round(self.rates.ratio(TWO, SERVER), 4),
            "two_stages_vs_one_stage": round(self.rates.ratio(TWO, ONE), 4),
            "control": round(self.rates.ratio(TWIN, ONE), 4),
            "tokens_per_s": {arm: rounded(rates) for arm, rates in self.rates.rates.items()},
            "token_gap_ms": {arm: p50_p95(gaps) for arm, gaps in self.gaps_ms.items()},
            "first_token_ms": {arm: p50_p95(times) for arm, times in self.first_ms.items()},
        }


@dataclass(slots=True)
class Disturbance:
    """What a newcomer's prompt did to the others, over all rounds, by arm: milliseconds."""

    before: dict[str, list[float]] = field(default_factory=dict)
    during: dict[str, list[float]] = field(default_factory=dict)
    first_ms: dict[str, list[float]] = field(default_factory=dict)

    def add(self, arm: str, streams: list[Stream], newcomer: Stream) -> None:
        """Record one run."""
        before, during = gaps_around(streams, newcomer)
        self.before.setdefault(arm, []).extend(before)
        self.during.setdefault(arm, []).extend(during)
        self.first_ms.setdefault(arm, []).append(newcomer.first_ms)

    def report(self) -> dict[str, object]:
        """For the last line."""
        return {
            "prompt_tokens": NEWCOMER.prompt_tokens,
            "others": NEWCOMER_AMONG,
            "rounds": len(self.first_ms[ONE]),
            "gap_p95_ratio": {
                arm: round(p50_p95(self.during[arm])["p95"] / p50_p95(self.before[arm])["p95"], 2)
                for arm in self.before
            },
            "undisturbed_gap_ms": {arm: p50_p95(gaps) for arm, gaps in self.before.items()},
            "disturbed_gap_ms": {arm: p50_p95(gaps) for arm, gaps in self.during.items()},
            "newcomers_first_token_ms": {arm: round(median(times), 1) for arm, times in self.first_ms.items()},
        }


async def measure(
    folder: Path, streams: list[int], rounds: int, progress: BenchProgress
) -> tuple[list[Level], Disturbance]:
    """Everything, level by level: nothing else is loaded while something is measured."""
    sessions, turn_path = max(*streams, NEWCOMER_AMONG + 1), str(folder / "compute.turn")
    cuts = {ONE: (), TWIN: (), TWO: (DEMO.layers // 2,)}
    deadline_s = time.monotonic() + BUDGET_S
    levels, disturbance = [], Disturbance()
    async with contextlib.AsyncExitStack() as stack:
        routes = {}
        for name, own in cuts.items():
            arm = Arm(f"batch-{name}", own, turn_path, THREADS, sessions=sessions)
            routes[name] = await stack.enter_async_context(llama_route(folder, arm))
        for count in streams:
            async with llama_server(OURS, DEMO.path, THREADS, count, CONTEXT_LENGTH) as server:
                serve: dict[str, Serve] = {name: route.streams for name, route in routes.items()}
                serve[SERVER] = partial(server.streams, DEMO.prompt)
                levels.append(await _level(count, serve, rounds, deadline_s, progress))
        async with llama_server(OURS, DEMO.path, THREADS, NEWCOMER_AMONG + 1, CONTEXT_LENGTH) as server:
            disturb: dict[str, Disturb] = {name: route.disturbed_streams for name, route in routes.items()}
            disturb[SERVER] = partial(server.disturbed_streams, DEMO.prompt)
            newcomer_rounds = _newcomer_rounds(rounds)
            for number in range(newcomer_rounds):
                for arm_name in Rounds(ARMS).order(number):
                    progress.now(f"newcomer {number + 1}/{newcomer_rounds} {arm_name}")
                    player = disturb[traded(arm_name, number, (ONE, TWIN))]
                    await asyncio.sleep(REST_S)
                    disturbance.add(arm_name, *await player(NEWCOMER_TOKENS, NEWCOMER_AMONG, NEWCOMER))
                progress.advance(NEWCOMER_ROUND_S)
                progress.say(f"newcomer {number + 1}/{newcomer_rounds}: {disturbance.report()['gap_p95_ratio']}")
                if time.monotonic() > deadline_s:
                    break
    return levels, disturbance


def _newcomer_rounds(rounds: int) -> int:
    """Each round has hundreds of gaps, so that half as many say enough."""
    return max(rounds // 2, ROUNDS_FEWEST)


async def _level(count: int, serve: dict[str, Serve], rounds: int, deadline_s: float, progress: BenchProgress) -> Level:
    level, tokens = Level(count), max(TOKENS // count, STREAM_TOKENS_MIN)
    for arm in ARMS:
        await serve[arm](STREAM_TOKENS_MIN, count)
    for number in range(rounds):
        for arm in level.rates.order(number):
            progress.now(f"{count} streams {number + 1}/{rounds} {arm}")
            await asyncio.sleep(REST_S)
            level.add(arm, await serve[traded(arm, number, (ONE, TWIN))](tokens, count))
        progress.advance(ROUND_S)
        last = ", ".join(f"{arm} {level.rates.rates[arm][-1]:.0f}" for arm in ARMS)
        progress.say(f"{count} streams {number + 1}/{rounds}: {last} tokens/s")
        if time.monotonic() > deadline_s:
            break
    return level


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN + 1)
    parser.add_argument("--streams", type=int, action="append", help="only so many; may be repeated")
    arguments = parser.parse_args()
    if arguments.rounds < ROUNDS_FEWEST:
        parser.error(f"quantiles need {ROUNDS_FEWEST} rounds at least")
    if not DEMO.path.exists() or not program(OURS, "llama-server").exists():
        raise SystemExit("bench-batch: no model or no llama-server: run `make bench-batch`, which makes both")
    streams = arguments.streams or list(STREAMS)
    total_s = ROUND_S * arguments.rounds * len(streams) + NEWCOMER_ROUND_S * _newcomer_rounds(arguments.rounds)
    with tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder, bench_progress(total_s) as progress:
        run = partial(measure, Path(folder), streams, arguments.rounds, progress)
        levels, disturbance = in_own_thread(run)
    controls = {level.streams: level.rates.ratio(TWIN, ONE) for level in levels}
    noisy = [str(streams) for streams, ratio in controls.items() if is_outside_band(ratio)]
    inconclusive = f"too noisy with {', '.join(noisy)} streams" if noisy else ""
    if min(level.rates.count for level in levels) < ROUNDS_MIN:
        inconclusive = inconclusive or f"fewer than {ROUNDS_MIN} rounds"
    result = {
        "control": round(farthest_from_one(list(controls.values())), 4),
        "inconclusive": inconclusive,
        "streams": {str(level.streams): level.report() for level in levels},
        "newcomer": disturbance.report(),
    }
    return conclude("bench-batch", result, inconclusive=inconclusive)


if __name__ == "__main__":
    raise SystemExit(main())
