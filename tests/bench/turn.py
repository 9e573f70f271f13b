"""What the machine's compute turn is worth on the demo model: the same loads with it and without, interleaved.

    python -m tests.bench.turn [--rounds N] [--tokens N] [--load NAME ...]

Loads: one and four sessions on a route of two workers, and two workers with the whole model that serve one session
each, always two threads a worker. The last line is one JSON object with the rates of every round, and with quantiles
of the gaps between a session's tokens: on a busy machine the tenth percentile is what the least disturbed steps took.
Ends after its time even where rounds are missing, and says how many there were.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from tests.bench.llama_routes import DEMO, Arm, LlamaRoute, llama_route
from tests.bench.pairs import ROUNDS_MIN, Rounds, rounded

CUT: Final = (15,)
WARM_UP_TOKENS: Final = 8
BUDGET_S: Final = 300.0
WITH: Final = "with_turn"
WITHOUT: Final = "without_turn"


@dataclass(frozen=True, slots=True)
class Load:
    """What is served: routes of these cuts at once, each with so many sessions."""

    name: str
    cuts: tuple[int, ...]
    routes: int
    sessions: int


LOADS: Final = (
    Load("split_1_session", CUT, 1, 1),
    Load("split_4_sessions", CUT, 1, 4),
    Load("two_whole_models", (), 2, 1),
)


async def rate(routes: list[LlamaRoute], tokens: int, sessions: int) -> float:
    """Tokens per second of all routes together."""
    return sum(await asyncio.gather(*(route.tokens_per_s(tokens, sessions=sessions) for route in routes)))


async def measure(folder: Path, load: Load, rounds_wanted: int, tokens: int) -> dict[str, object]:
    """Run rounds of one load until there are enough or the time is over, and report them."""
    rounds = Rounds((WITH, WITHOUT))
    paths = {WITH: str(folder / "compute.turn"), WITHOUT: ""}
    deadline_s = time.monotonic() + BUDGET_S / len(LOADS)
    async with contextlib.AsyncExitStack() as stack:
        served: dict[str, list[LlamaRoute]] = {}
        for name, turn_path in paths.items():
            arms = [Arm(f"{load.name}-{name}-{number}", load.cuts, turn_path) for number in range(load.routes)]
            served[name] = [await stack.enter_async_context(llama_route(folder, arm)) for arm in arms]
            await rate(served[name], WARM_UP_TOKENS, load.sessions)
            for route in served[name]:
                route.gaps_ms.clear()
        for number in range(rounds_wanted):
            for name in rounds.order(number):
                rounds.add(name, await rate(served[name], tokens, load.sessions))
            print(f"{load.name} {number + 1}: " + ", ".join(f"{name} {rounds.rates[name][-1]:.1f}" for name in paths))
            if time.monotonic() > deadline_s:
                break
        gaps_ms = {name: [gap for route in served[name] for gap in route.gaps_ms] for name in paths}
    return report(rounds, gaps_ms)


def report(rounds: Rounds, gaps_ms: dict[str, list[float]]) -> dict[str, object]:
    """Medians of one load, of pairs for the ratio; the best rates are those that the machine disturbed least."""
    pairs = zip(rounds.rates[WITH], rounds.rates[WITHOUT], strict=True)
    return {
        "rounds": len(rounds.rates[WITH]),
        "with_vs_without": round(median(one / other for one, other in pairs), 3),
        "median_tokens_per_s": {name: round(median(rates), 2) for name, rates in rounds.rates.items()},
        "token_gap_ms": {
            name: {f"p{percent}": round(quantiles(gaps, n=100)[percent - 1], 1) for percent in (10, 50, 90)}
            for name, gaps in gaps_ms.items()
        },
        "best_tokens_per_s": {name: round(max(rates), 2) for name, rates in rounds.rates.items()},
        "tokens_per_s": {name: rounded(rates) for name, rates in rounds.rates.items()},
    }


def main() -> int:
    """Measure all loads and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--load", action="append", choices=[load.name for load in LOADS], help="may be repeated")
    arguments = parser.parse_args()
    if not DEMO.path.exists():
        raise SystemExit("bench: no model: run `make model`")
    result = {}
    with tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder:
        for load in LOADS:
            if load.name in (arguments.load or [load.name]):
                result[load.name] = asyncio.run(measure(Path(folder), load, arguments.rounds, arguments.tokens))
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
