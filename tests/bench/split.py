"""What splitting costs, and what a hop costs. `make bench-split`.

    python -m tests.bench.split [--pairs N] [--attempts N]

Single-stream decode of the demo's model and of a generated one of a billion parameters: two stages with direct links
over TLS on this machine, two threads each, with the machine's compute turn, against the whole model in one worker; the
control is a second worker with the whole model, and both trade places. Then the hop between two workers against a bare
gRPC stream. What a control shows to be too noisy is measured again, as often as `--attempts` allows. The last line is
one JSON object; keys that are not measured yet are named in `absent`. Exit status 3 (make says so, and has its own):
nothing can be concluded, neither pass nor fail.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.generated_model import Shape, generated_model
from tests.bench.hops import ECHO, Hops, hop_bench
from tests.bench.llama_routes import DEMO, MODELS, BenchModel
from tests.bench.pairs import ROUNDS_MIN, farthest_from_one, is_outside_band
from tests.bench.plot import plot_ratios
from tests.bench.progress import BenchProgress, bench_progress
from tests.bench.split_rounds import CONTROL, SPLIT, UNSPLIT, SplitResult, Subject, split_bench

EXIT_INCONCLUSIVE: Final = 3
DEMO_WIDTH: Final = 576
HOP_ROUND_S: Final = 4.5
HOP_BUDGET_S: Final = 60.0  # a width
LOADING_S: Final = 12.0  # of everything
ABSENT: Final = tuple(
    [
        f"{name}.{key}"
        for name in ("demo", "generated_1b")
        for key in ("worker_vs_llama_bench_decode", "worker_vs_llama_bench_prefill", "split_vs_rpc")
    ]
    + ["weights_resident_vs_share"]
)


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that was measured.

    Attributes:
        hops: by subject.
    """

    splits: list[SplitResult]
    hops: dict[str, Hops]

    @property
    def inconclusive(self) -> str:
        """Why nothing can be concluded; empty where something can."""
        if any(is_outside_band(split.control) for split in self.splits):
            return "too noisy"
        counts = [split.rounds.count for split in self.splits] + [hops.rounds.count for hops in self.hops.values()]
        return f"fewer than {ROUNDS_MIN} pairs" if min(counts) < ROUNDS_MIN else ""

    def report(self) -> dict[str, object]:
        """The JSON object of the last line."""
        return {
            "control": round(farthest_from_one([split.control for split in self.splits]), 4),
            "inconclusive": self.inconclusive,
            **{split.subject.name: split.report() for split in self.splits},
            "hop_ratio": round(max(hops.ratio for hops in self.hops.values()), 4),
            "hops": {name: hops.report() for name, hops in self.hops.items()},
            "decode_frame_bytes": {name: hops.seam_bytes for name, hops in self.hops.items()},
            "absent": ABSENT,
        }

    def plot(self) -> list[str]:
        """The ratios of all pairs, for a person."""
        series = {}
        for split in self.splits:
            for arm in (CONTROL, SPLIT):
                series[f"{split.subject.name} {arm} / {UNSPLIT}"] = split.rounds.ratios(arm, UNSPLIT)
        return plot_ratios(series)


def subjects(progress: BenchProgress) -> list[Subject]:
    """Both models; the larger is generated where it is not there yet.

    Raises:
        ValueError: the generated file is not what it should be.
    """
    progress.now("generating a model")
    path = generated_model(MODELS, lambda done, of: progress.now(f"generating a model {done}/{of}"))
    shape = Shape()
    generated = BenchModel(path, shape.layers, tuple(range(1, 13)))
    return [
        Subject("demo", DEMO, DEMO_WIDTH, tokens=192, run_s=2.0, budget_s=120.0),
        Subject("generated_1b", generated, shape.width, tokens=64, run_s=1.8, budget_s=180.0),
    ]


async def measure_hops(folder: Path, width: int, pairs: int, progress: BenchProgress) -> Hops:
    """Rounds of one width; fewer where the time is over."""
    deadline_s = time.monotonic() + HOP_BUDGET_S
    async with hop_bench(folder, width) as bench:
        hops = await bench.begin()
        for number in range(pairs):
            progress.now(f"hops of {hops.seam_bytes} bytes {number + 1}/{pairs}")
            await bench.add_round(hops, number)
            progress.advance(HOP_ROUND_S)
            last = ", ".join(f"{side} {us[-1]:.0f}" for side, us in hops.rounds.rates.items())
            progress.say(f"hops of {hops.seam_bytes} bytes {number + 1}/{pairs}: {last} us")
            if time.monotonic() > deadline_s:
                break
    return hops


async def measure(folder: Path, pairs: int, attempts: int) -> Result:
    """Everything, one after the other: nothing else is loaded while something is measured."""
    result = Result([], {})
    with bench_progress(LOADING_S) as progress:
        wanted = subjects(progress)
        progress.more(sum(subject.estimated_s(pairs) + pairs * HOP_ROUND_S for subject in wanted))
        for subject in wanted:
            async with split_bench(folder, subject, progress) as bench:
                progress.advance(LOADING_S / len(wanted))
                result.splits.append(await bench.result(pairs, attempts))
        for subject in wanted:
            result.hops[subject.name] = await measure_hops(folder, subject.width, pairs, progress)
    return result


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pairs", type=int, default=ROUNDS_MIN + 1, help="even, so that both twins play each part as often"
    )
    parser.add_argument("--attempts", type=int, default=2)
    arguments = parser.parse_args()
    if not DEMO.path.exists():
        raise SystemExit("bench-split: no model: run `make model`")
    if not ECHO.exists():
        raise SystemExit("bench-split: no grpc_echo: run `make bench-split`, which builds it")
    with tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder:
        result = asyncio.run(measure(Path(folder), arguments.pairs, arguments.attempts))
    print("\n".join(result.plot()))
    if result.inconclusive:
        print(f"bench-split: {result.inconclusive}: neither pass nor fail")
    print(json.dumps(result.report()))
    return EXIT_INCONCLUSIVE if result.inconclusive else 0


if __name__ == "__main__":
    raise SystemExit(main())
