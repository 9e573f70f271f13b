"""What the machine's compute turn is worth while somebody else computes. `make bench-turn`.

    python -m tests.bench.turn [--rounds N] [--situation NAME ...]

One stream of the demo's model through one worker and through two stages, two threads each: alone, beside a third worker
with a stream of its own or with prompts, and beside foreign programs that keep one core or all cores busy. Each with
the compute turn, without it, and with split cores (a thread a worker, each worker on one core). What plays the
Gateway's part has normal priority, like an agent. Then a worker that is killed or stopped inside a step while others
wait for its turn. `control` is the unsplit worker against its twin. The last line is one JSON object; exit status 3
where nothing can be concluded.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.conclusion import conclude
from tests.bench.llama_routes import DEMO
from tests.bench.pairs import ROUNDS_MIN, why_inconclusive
from tests.bench.plot import plot_ratios
from tests.bench.programs import in_own_thread
from tests.bench.progress import BenchProgress, bench_progress
from tests.bench.turn_crash import SIGNALS, TRIAL_S, TRIALS, control_waits, waits_ms
from tests.bench.turn_crash import report as crash_report
from tests.bench.turn_situations import (
    ALONE,
    CONTROL,
    NO_TURN,
    SITUATIONS,
    SPLIT,
    SPLIT_CORES,
    THIRD,
    TURN,
    UNSPLIT,
    WAYS,
    Found,
    turn_bench,
)

ROUNDS_FEWEST: Final = 2
BUDGET_S: Final = 360.0
LOADING_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that was measured.

    Attributes:
        found: by situation; `alone` is always among them.
        waits: until somebody computes again, by what became of the turn's holder; milliseconds.
    """

    found: dict[str, Found]
    waits: dict[str, list[float]]

    @property
    def control(self) -> float:
        """How equal two equal workers were."""
        return _ratio(self.found[ALONE].of(TURN, CONTROL), self.found[ALONE].of(TURN, UNSPLIT))

    @property
    def inconclusive(self) -> str:
        """Why nothing can be concluded; empty where something can."""
        noisy = why_inconclusive([self.control], [one.rates.count for one in self.found.values()])
        if noisy or control_waits(self.waits):
            return noisy
        return "a holder that was left alone was not waited for"

    def report(self) -> dict[str, object]:
        """The JSON object of the last line."""
        situations = {name: self._situation(one) for name, one in self.found.items()}
        return {
            "control": round(self.control, 4),
            "inconclusive": self.inconclusive,
            "rounds": self.found[ALONE].rates.count,
            **situations,
            "crash": crash_report(self.waits),
        }

    def plot(self) -> list[str]:
        """The turn against the other ways, round by round, for a person."""
        series = {"control": _ratios(self.found[ALONE].of(TURN, CONTROL), self.found[ALONE].of(TURN, UNSPLIT))}
        for name, one in self.found.items():
            for stream in (SPLIT, THIRD if one.situation.is_shared else UNSPLIT):
                for way in (NO_TURN, SPLIT_CORES):
                    ratios = _ratios(one.of(TURN, stream), one.of(way, stream))
                    series[f"{name} {stream} {TURN} / {way}"] = ratios
        return plot_ratios(series)

    def _situation(self, one: Found) -> dict[str, object]:
        own = {way: one.way(way) for way in WAYS}
        for way in WAYS:
            if not one.situation.prompt_rows:
                own[way] |= self._beside_third(one, way) if one.situation.third else self._beside_hogs(one, way)
        return dict(own)

    def _beside_third(self, one: Found, way: str) -> dict[str, object]:
        """Against the machine to themselves, and against what a perfect turn would give.

        In rotation each stage of the split route lets the third compute once: two of its tokens for one of the route's.
        """
        alone = self.found[ALONE]
        undisturbed = zip(alone.of(TURN, SPLIT), alone.of(TURN, UNSPLIT), strict=True)
        rotation = [1 / (1 / split + 2 / third) for split, third in undisturbed]
        split, third = one.of(way, SPLIT), one.of(way, THIRD)
        parts = (_ratio(split, alone.of(TURN, SPLIT)), _ratio(third, alone.of(TURN, UNSPLIT)))
        return {
            "of_undisturbed": {SPLIT: round(parts[0], 4), THIRD: round(parts[1], 4), "total": round(sum(parts), 4)},
            "of_rotation": {
                SPLIT: round(_ratio(split, rotation), 4),
                THIRD: round(_ratio(third, [2 * rate for rate in rotation]), 4),
            },
            # Steps of who has more, by those of who has fewer: a token of the route is two steps.
            "steps_max_vs_min": round(median(max(2 * ratio, 1 / (2 * ratio)) for ratio in _ratios(split, third)), 4),
        }

    def _beside_hogs(self, one: Found, way: str) -> dict[str, object]:
        fair = one.situation.fair_share(len(os.sched_getaffinity(0)))
        parts = {stream: _ratio(one.of(way, stream), self.found[ALONE].of(TURN, stream)) for stream in (UNSPLIT, SPLIT)}
        return {
            "of_undisturbed": {stream: round(part, 4) for stream, part in parts.items()},
            "of_fair_share": {stream: round(part / fair, 4) for stream, part in parts.items()},
            "split_vs_unsplit": round(_ratio(one.of(way, SPLIT), one.of(way, UNSPLIT)), 4),
        }


def _ratios(own: list[float], other: list[float]) -> list[float]:
    return [one / against for one, against in zip(own, other, strict=True)]


def _ratio(own: list[float], other: list[float]) -> float:
    return median(_ratios(own, other))


async def measure(folder: Path, arguments: argparse.Namespace, progress: BenchProgress) -> Result:
    """Everything, one after the other. `folder` holds sockets and the compute turn's name."""
    wanted = [one for one in SITUATIONS if one.name in (ALONE, *arguments.situation) or not arguments.situation]
    progress.more(LOADING_S + sum(one.round_s for one in wanted) * arguments.rounds + TRIALS * TRIAL_S * len(SIGNALS))
    turn_path = str(folder / "compute.turn")
    async with turn_bench(folder, turn_path, progress) as bench:
        progress.advance(LOADING_S)
        found = await bench.measure(wanted, arguments.rounds, BUDGET_S)
        waits = await waits_ms(folder, turn_path, bench.routes[f"{TURN}.{SPLIT}"], progress)
    return Result(found, waits)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN + 1)
    names = [one.name for one in SITUATIONS]
    parser.add_argument(
        "--situation", action="append", default=[], choices=names, help=f"{ALONE} and this one; may be repeated"
    )
    arguments = parser.parse_args()
    if arguments.rounds < ROUNDS_FEWEST:
        parser.error(f"medians need {ROUNDS_FEWEST} rounds at least")
    if not DEMO.path.exists():
        raise SystemExit("bench-turn: no model: run `make model`")
    with tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder, bench_progress(0.0) as progress:
        result = in_own_thread(partial(measure, Path(folder), arguments, progress))
    print("\n".join(result.plot()))
    return conclude("bench-turn", result.report(), inconclusive=result.inconclusive)


if __name__ == "__main__":
    raise SystemExit(main())
