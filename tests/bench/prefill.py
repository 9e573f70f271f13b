"""A long prompt through many machines, against the bound of a pipeline. `make bench-prefill`.

    python -m tests.bench.prefill [--rounds N] [--stages N ...]

Native workers with timed FakeEngine stages stand for machines of their own: 2, 4 and 8 of them, joined by lines of 0,
10 and 50 ms each way, or narrow ones. The prompt is cut, and its windows are granted, by the product's own choice;
`former` is what was done before, 128 rows and three frames everywhere. Timed is from the prompt's first chunk leaving
until the tail has computed its last. `ratio` is to

    sum t_i(C) + sum L_i + (P / C - 1) * max_i max(t_i(C), C * b / U_i),

the smallest over the chunk sizes C that may be chosen. That leaves out the first chunk's way over narrow lines, though
such a line is a part of the pipeline like any stage: the next stage begins once it has taken in the whole chunk.
`ratio_reachable` counts it, and the floor of 1.15 is for that; elsewhere the two are one. `control` is a case against
itself, and a window of one frame has to miss the floor. The last line is one JSON object; exit status 1 where the floor
is missed, 3 where nothing can be concluded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from meshnet.generation.chunking import CHUNK_ROWS, WINDOW_FRAMES_MIN, Chunking, Pipeline, choose_chunking
from meshnet.session import Window
from tests.bench.pairs import Rounds, farthest_from_one, is_outside_band
from tests.bench.plot import plot_ratios
from tests.bench.prefill_bound import Case, Idling, best_ms, idling_of
from tests.bench.progress import BenchProgress, bench_progress
from tests.simulators.pipelined_route import Machines, PipelinedRoute, pipelined_route

EXIT_SLOW: Final = 1
EXIT_INCONCLUSIVE: Final = 3
FLOOR: Final = 1.15
STAGES: Final = (2, 4, 8)
ROUNDS: Final = 3
ROUNDS_FEWEST: Final = 3
WIDTH: Final = 512
CHOSEN, TWIN, FORMER = "chosen", "control", "former"
# (latency in ms, whether the line is narrow: half of what a stage's rows need)
LINES: Final = ((0.0, False), (10.0, False), (50.0, False), (10.0, True))
# The farthest line; there a window of one frame is the negative control.
FAR: Final = (50.0, False)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a machine's steps take, and the prompt that it is given."""

    name: str
    fixed_us: int
    row_us: int
    prompt_tokens: int

    def case(self, stages: int, latency_ms: float, *, is_narrow: bool) -> Case:
        """So many of them behind such lines."""
        machines = Machines(stages, self.fixed_us, self.row_us, WIDTH)
        rate = 1e6 * machines.row_bytes / (2 * self.row_us) if is_narrow else None
        return Case(machines, self.prompt_tokens, latency_ms, rate)


KINDS: Final = (Kind("quick", 2_000, 300, 1024), Kind("dear", 20_000, 2_000, 384))


@dataclass
class Measured:
    """One case's times by arm, in ms, one a round; `one_frame_ms` is the negative control's, where it was run."""

    name: str
    case: Case
    chunking: Chunking
    bound_ms: float
    reachable_ms: float
    rounds: Rounds = field(default_factory=lambda: Rounds((CHOSEN, TWIN, FORMER)))
    idling: Idling | None = None
    one_frame_ms: float | None = None

    def times_ms(self, arm: str) -> list[float]:
        """An arm's rounds."""
        return [1000 * self.case.prompt_tokens / rate for rate in self.rounds.rates[arm]]

    def ratio(self, arm: str = CHOSEN) -> float:
        """Median time by the bound."""
        return median(self.times_ms(arm)) / self.bound_ms

    @property
    def ratio_reachable(self) -> float:
        """Median time of the product's choice by what whole chunks can reach."""
        return median(self.times_ms(CHOSEN)) / self.reachable_ms

    @property
    def control(self) -> float:
        """The case against itself."""
        return self.rounds.ratio(TWIN, CHOSEN)

    def report(self) -> dict[str, object]:
        """For the last line."""
        taken_ms = median(self.times_ms(CHOSEN))
        return {
            "rows": self.chunking.rows,
            "window_frames": [window.frames for window in self.chunking.windows],
            "ms": round(taken_ms, 1),
            "bound_ms": round(self.bound_ms, 1),
            "ratio": round(self.ratio(), 3),
            "ratio_reachable": round(self.ratio_reachable, 3),
            "former_ms": round(median(self.times_ms(FORMER)), 1),
            "former_ratio": round(self.ratio(FORMER), 3),
            "control": round(self.control, 3),
            "step_longer_us": None if self.idling is None else round(self.idling.longer_us),
            "gap_us": None if self.idling is None else round(self.idling.gap_us),
            "one_frame_ratio": None if self.one_frame_ms is None else round(self.one_frame_ms / self.bound_ms, 3),
        }


def pipeline_of(case: Case) -> Pipeline:
    """The case as a Gateway knows it."""
    machines = case.machines
    return Pipeline(
        case.prompt_tokens, (machines.time,) * machines.stages, machines.links(case.latency_ms, case.bytes_per_s)
    )


def fixed_chunking(pipeline: Pipeline, rows: int, frames: int) -> Chunking:
    """The same cut and window on every link."""
    return Chunking(rows, tuple(Window(frames, frames * rows * link.row_bytes) for link in pipeline.links), 0.0)


async def measure_case(route: PipelinedRoute, measured: Measured, rounds_wanted: int, *, is_far: bool) -> None:
    """All arms in turns, after one run to warm up; then the negative control."""
    case, chunking = measured.case, measured.chunking
    pipeline = pipeline_of(case)
    arms = {CHOSEN: chunking, TWIN: chunking, FORMER: fixed_chunking(pipeline, CHUNK_ROWS, WINDOW_FRAMES_MIN)}
    await route.lines.set(case.latency_ms, case.bytes_per_s)
    await route.prefill(case.prompt_tokens, chunking)
    for number in range(rounds_wanted):
        for arm in measured.rounds.order(number):
            prefilled = await route.prefill(case.prompt_tokens, arms[arm])
            measured.rounds.add(arm, 1000 * case.prompt_tokens / prefilled.ms)
            if arm == CHOSEN:
                measured.idling = idling_of(case, prefilled.steps)
    if is_far:
        control = await route.prefill(case.prompt_tokens, fixed_chunking(pipeline, chunking.rows, 1))
        measured.one_frame_ms = control.ms


def estimate_s(case: Case, rounds_wanted: int) -> float:
    """Of a case, by its bound: what was done before takes about half as long again."""
    return case.reachable_ms(CHUNK_ROWS) / 1000 * (3 * rounds_wanted + 1)


async def measure(folder: Path, stages: Sequence[int], rounds_wanted: int, progress: BenchProgress) -> list[Measured]:
    """All cases; the workers of a number of stages serve all of its lines."""
    found = []
    for kind in KINDS:
        for number in stages:
            own = folder / f"{kind.name}{number}"
            own.mkdir()
            async with pipelined_route(own, kind.case(number, 0.0, is_narrow=False).machines) as route:
                for latency_ms, is_narrow in LINES:
                    case = kind.case(number, latency_ms, is_narrow=is_narrow)
                    name = f"{kind.name}, {number} stages, {latency_ms:g} ms{', narrow' if is_narrow else ''}"
                    progress.now(name)
                    pipeline = pipeline_of(case)
                    bounds = best_ms(case, pipeline.admissible_rows())
                    one = Measured(name, case, choose_chunking(pipeline), *bounds)
                    await measure_case(route, one, rounds_wanted, is_far=(latency_ms, is_narrow) == FAR)
                    progress.say(
                        f"{name}: {one.chunking.rows} rows, {one.ratio():.3f} of the bound "
                        f"({one.ratio_reachable:.3f} of what can be reached), "
                        f"former {one.ratio(FORMER):.3f}"
                    )
                    progress.advance(estimate_s(case, rounds_wanted))
                    found.append(one)
    return found


def conclude(found: Sequence[Measured]) -> tuple[int, str]:
    """The exit status, and why; a figure that is no number misses every floor."""
    noisy = [f"{one.name} ({one.control:.3f})" for one in found if is_outside_band(one.control)]
    if noisy:
        return EXIT_INCONCLUSIVE, f"too noisy, by the control of {'; '.join(noisy)}"
    one_frame = [one.one_frame_ms / one.bound_ms for one in found if one.one_frame_ms is not None]
    if not one_frame or not all(ratio > FLOOR for ratio in one_frame):
        return EXIT_INCONCLUSIVE, "a window of one frame was not found to be slow"
    slow = [f"{one.name} ({one.ratio_reachable:.3f})" for one in found if not one.ratio_reachable <= FLOOR]
    return (EXIT_SLOW, f"over {FLOOR} of the bound: {'; '.join(slow)}") if slow else (0, "")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--stages", type=int, nargs="+", choices=STAGES, default=STAGES)
    arguments = parser.parse_args()
    if arguments.rounds < ROUNDS_FEWEST:
        print(f"bench-prefill: a median needs {ROUNDS_FEWEST} rounds")
        return EXIT_INCONCLUSIVE
    cases = [
        kind.case(number, latency_ms, is_narrow=is_narrow)
        for kind in KINDS
        for number in arguments.stages
        for latency_ms, is_narrow in LINES
    ]
    with (
        tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder,
        bench_progress(sum(estimate_s(case, arguments.rounds) for case in cases)) as progress,
    ):
        found = asyncio.run(measure(Path(folder), arguments.stages, arguments.rounds, progress))
    print("time by the bound, each case's rounds")
    print("\n".join(plot_ratios({one.name: [ms / one.bound_ms for ms in one.times_ms(CHOSEN)] for one in found})))
    status, why = conclude(found)
    if why:
        print(f"bench-prefill: {why}")
    result = {
        "worst_ratio": round(max(one.ratio() for one in found), 3),
        "worst_ratio_reachable": round(max(one.ratio_reachable for one in found), 3),
        "best_former_ratio": round(min(one.ratio(FORMER) for one in found), 3),
        "control": round(farthest_from_one([one.control for one in found]), 3),
        "cases": {one.name: one.report() for one in found},
    }
    print(json.dumps(result))
    return status


if __name__ == "__main__":
    raise SystemExit(main())
