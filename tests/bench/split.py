"""What splitting costs, and what a hop costs. `make bench-split`.

    python -m tests.bench.split [--pairs N] [--attempts N] [--subject NAME ...]

One stream of the demo's model and of a generated one of a billion parameters: two stages joined as those of
one machine are, two threads each, with the machine's compute turn, against the whole model in one worker, against
`llama-bench` and against llama.cpp's RPC with two servers; the control is a second worker with the whole model, and
both trade places. `llama-bench` as upstream builds it is reported beside them. Then the hop between two workers, of one
machine and as over a network, against a bare gRPC stream. What a control shows to be too noisy is measured again, as
often as `--attempts` allows. The last line is one JSON object. Exit status 3 (make says so, and has its own): nothing
can be concluded, neither pass nor fail.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.conclusion import conclude
from tests.bench.generated_model import Shape, generated_model
from tests.bench.hops import ECHO, LOCAL, TLS, Hops, hop_bench
from tests.bench.llama_cpp import OURS, UPSTREAM, Load, program
from tests.bench.llama_routes import DEMO, MODELS, BenchModel
from tests.bench.pairs import ROUNDS_MIN, farthest_from_one, why_inconclusive
from tests.bench.plot import plot_ratios
from tests.bench.programs import in_own_thread
from tests.bench.progress import BenchProgress, bench_progress
from tests.bench.split_rounds import CONTROL, LLAMA_BENCH, RPC, SPLIT, UNSPLIT, SplitResult, Subject, measure_split

DEMO_WIDTH: Final = 576
HOP_ROUND_S: Final = 6.5
HOP_BUDGET_S: Final = 60.0  # a width
LOADING_S: Final = 45.0  # of everything, and warming up
PLOTTED: Final = ((CONTROL, UNSPLIT), (SPLIT, UNSPLIT), (UNSPLIT, LLAMA_BENCH), (SPLIT, RPC))
PROGRAMS: Final = (
    ECHO,
    program(OURS, "llama-bench"),
    *(program(UPSTREAM, name) for name in ("llama-bench", "ggml-rpc-server")),
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
        counts = [split.last.decode.count for split in self.splits] + [hops.rounds.count for hops in self.hops.values()]
        return why_inconclusive([split.last.control for split in self.splits], counts)

    def report(self) -> dict[str, object]:
        """The JSON object of the last line."""
        return {
            "control": round(farthest_from_one([split.last.control for split in self.splits]), 4),
            "inconclusive": self.inconclusive,
            **{split.subject.name: split.report() for split in self.splits},
            "hop_ratio": round(max(hops.ratio(LOCAL) for hops in self.hops.values()), 4),
            "hop_ratio_tls": round(max(hops.ratio(TLS) for hops in self.hops.values()), 4),
            "hops": {name: hops.report() for name, hops in self.hops.items()},
            "decode_frame_bytes": {name: hops.seam_bytes for name, hops in self.hops.items()},
            # Of the largest: what a process needs beside its weights hides those of a small model.
            "weights_resident_vs_share": round(max(one.ratio for one in self.splits[-1].resident), 4),
        }

    def plot(self) -> list[str]:
        """The ratios of all pairs, for a person."""
        series = {}
        for split in self.splits:
            for arm, against in PLOTTED:
                series[f"{split.subject.name} {arm} / {against}"] = split.last.decode.ratios(arm, against)
        return plot_ratios(series)


def subjects(names: list[str], progress: BenchProgress) -> list[Subject]:
    """The models of these names, none: all; the larger is generated where it is not there yet.

    Raises:
        ValueError: the generated file is not what it should be.
    """
    progress.now("generating a model")
    path = generated_model(MODELS, lambda done, of: progress.now(f"generating a model {done}/{of}"))
    shape = Shape()
    generated = BenchModel(path, shape.layers, tuple(range(1, 13)))
    found = [
        Subject("demo", DEMO, DEMO_WIDTH, Load(decode_tokens=160, prompt_tokens=256), round_s=16.0, budget_s=160.0),
        Subject("generated_1b", generated, shape.width, Load(48, 96), round_s=30.0, budget_s=260.0),
    ]
    return [subject for subject in found if subject.name in names or not names]


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


def measure(folder: Path, arguments: argparse.Namespace) -> Result:
    """Everything, one after the other: nothing else is loaded while something is measured."""
    result, pairs = Result([], {}), arguments.pairs
    with bench_progress(LOADING_S) as progress:
        wanted = subjects(arguments.subject, progress)
        progress.more(sum(subject.round_s * pairs + pairs * HOP_ROUND_S for subject in wanted))
        for subject in wanted:
            split = partial(measure_split, folder, subject, progress, pairs, arguments.attempts)
            result.splits.append(in_own_thread(split))
            progress.advance(LOADING_S / len(wanted))
        for subject in wanted:
            hops = partial(measure_hops, folder, subject.width, pairs, progress)
            result.hops[subject.name] = in_own_thread(hops)
    return result


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pairs", type=int, default=ROUNDS_MIN + 1, help="even, so that both twins play each part as often"
    )
    parser.add_argument("--attempts", type=int, default=1)
    parser.add_argument("--subject", action="append", default=[], help="measure this one alone; may be repeated")
    arguments = parser.parse_args()
    if not DEMO.path.exists():
        raise SystemExit("bench-split: no model: run `make model`")
    if missing := [path.name for path in PROGRAMS if not path.exists()]:
        raise SystemExit(f"bench-split: no {', '.join(missing)}: run `make bench-split`, which builds what it needs")
    with tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder:
        result = measure(Path(folder), arguments)
    print("\n".join(result.plot()))
    return conclude("bench-split", result.report(), inconclusive=result.inconclusive)


if __name__ == "__main__":
    raise SystemExit(main())
