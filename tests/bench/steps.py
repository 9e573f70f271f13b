"""What a decode step is made of, unsplit and in two stages. `make bench-steps`.

    python -m tests.bench.steps [--rounds N] [--subject NAME ...]

The workers say when what happened, by the clock that one machine's processes share; the Gateway's own clock says how
long a step took, and the parts have to explain it. The engine's parts come from llama.cpp's evaluation callback, which
costs speed itself: so each route runs without it too, and `profile_cost` says how much longer a step is with it. The
last line is one JSON object; exit status 3 where the parts do not explain a step to within 5 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.llama_routes import Arm, LlamaRoute, llama_route
from tests.bench.pairs import Rounds, farthest_from_one
from tests.bench.programs import in_own_thread, yield_to_what_is_measured
from tests.bench.progress import BenchProgress, bench_progress
from tests.bench.split import subjects
from tests.bench.split_rounds import SPLIT, THREADS, UNSPLIT, Subject
from tests.bench.step_parts import Breakdown, table, together

EXIT_UNEXPLAINED: Final = 3
EXPLAINED: Final = (0.95, 1.05)
ROUNDS: Final = 5
# Runs with the engine's own parts, and without.
PROFILED: Final = {UNSPLIT: f"{UNSPLIT} by parts", SPLIT: f"{SPLIT} by parts"}


async def measure(folder: Path, subject: Subject, rounds_wanted: int, progress: BenchProgress) -> dict[str, Breakdown]:
    """Interleaved generations of all four; the breakdown of each."""
    turn_path = str(folder / "compute.turn")
    cuts = {UNSPLIT: (), SPLIT: (subject.model.layers // 2,)}
    found: dict[str, list[Breakdown]] = {}
    async with contextlib.AsyncExitStack() as stack:
        routes: dict[str, LlamaRoute] = {}
        for name, own in cuts.items():
            for label, profile in ((name, False), (PROFILED[name], True)):
                arm = Arm(f"{subject.name}-{name}-{profile:d}", own, turn_path, THREADS, profile=profile, traced=True)
                routes[label] = await stack.enter_async_context(llama_route(folder, arm, subject.model))
        order = Rounds(tuple(routes))
        yield_to_what_is_measured()
        for number in range(rounds_wanted + 1):  # the first one warms up
            for label in order.order(number):
                progress.now(f"{subject.name} {number}/{rounds_wanted} {label}")
                breakdown = await routes[label].breakdown(subject.load.decode_tokens)
                if number:
                    found.setdefault(label, []).append(breakdown)
                progress.advance(subject.round_s / len(routes) / 3)
    return {label: together(breakdowns) for label, breakdowns in found.items()}


def report(measured: dict[str, Breakdown]) -> dict[str, object]:
    """Both routes' parts, and what the split adds to a step."""
    return {
        **{name: measured[PROFILED[name]].report() for name in (UNSPLIT, SPLIT)},
        "step_us": {name: round(measured[name].step_us) for name in (UNSPLIT, SPLIT)},
        "profile_cost": {
            name: round(measured[PROFILED[name]].step_us / measured[name].step_us, 4) for name in (UNSPLIT, SPLIT)
        },
        "plain": {name: measured[name].report() for name in (UNSPLIT, SPLIT)},
    }


def run(folder: Path, arguments: argparse.Namespace) -> dict[str, dict[str, Breakdown]]:
    """All subjects."""
    measured = {}
    with bench_progress(0.0) as progress:
        wanted = subjects(arguments.subject, progress)
        progress.more(sum(subject.round_s * (arguments.rounds + 1) / 3 for subject in wanted))
        for subject in wanted:
            measured[subject.name] = in_own_thread(partial(measure, folder, subject, arguments.rounds, progress))
    return measured


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--subject", action="append", default=[], help="measure this one alone; may be repeated")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder:
        measured = run(Path(folder), arguments)
    for name, breakdowns in measured.items():
        print(f"\n{name}")
        print("\n".join(table(breakdowns)))
    explained = [one.explained for breakdowns in measured.values() for one in breakdowns.values()]
    is_explained = all(EXPLAINED[0] <= one <= EXPLAINED[1] for one in explained)
    if not is_explained:
        print("bench-steps: the parts do not explain a step")
    print(
        json.dumps(
            {
                "explained": round(farthest_from_one(explained), 4),
                **{name: report(breakdowns) for name, breakdowns in measured.items()},
            }
        )
    )
    return 0 if is_explained else EXIT_UNEXPLAINED


if __name__ == "__main__":
    raise SystemExit(main())
