"""What packing the rows between two stages costs in quality, bytes and time, on the demo's model. `make bench-codecs`.

    python -m tests.bench.codecs [--rows N] [--rounds N]

Quality: two workers whose frames pass through this process. Raw rows draw each prompt's tokens; every other run is
given the same tokens and its logits are compared row by row: raw again (no difference is allowed), bf16, q8_0, raw rows
with a relative noise of 1e-6 (the control), q8_0 rows with wrong scales (which must fail). Bytes: the frames of those
runs. Time: `pack_rows` for a row, and decoding over direct links, codecs taking turns within a round. The last line is
one JSON object; exit status 1 where a bar is missed or too little was compared, 3 where the rates alone were too noisy.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from meshnet.frame import Codec
from meshnet.vocab import open_vocabulary
from tests.bench.codec_verdict import BARS, CodecVerdict
from tests.bench.conclusion import conclude
from tests.bench.llama_routes import DEMO, Arm, LlamaRoute, llama_route
from tests.bench.pairs import ROUNDS_MIN, Rounds, rounded, why_inconclusive
from tests.bench.programs import in_own_thread, output_of, yield_to_what_is_measured
from tests.bench.progress import BenchProgress, bench_progress
from tests.integration.native.native_routes import MEASURE_WORKER, WORKER
from tests.parity.batch_shapes import CONTEXT_LENGTH
from tests.parity.divergence import Divergence
from tests.parity.forced_route import Meddler, Noise, forced_route, leave_alone, wrong_scales
from tests.parity.prompts import PROMPTS
from tests.parity.worker_routes import Shards
from unsplit import prompt_tokens

PACK_ROWS: Final = WORKER.with_name("pack_rows")
THREADS: Final = 2
ROWS: Final = 96
# A machine's speed drifts from second to second: codecs take turns with short runs, so many a round.
SLICES: Final = 6
TOKENS: Final = 24
WIDTHS: Final = (576, 4096)
PACK_REPEATS: Final = 200
PACK_TIMEOUT_S: Final = 60.0
# One prompt of one arm; one round of decoding.
RUN_S: Final = 2.7
ROUND_S: Final = 7.0
NOISE, WRONG = "noise", "wrong_scales"
TWIN: Final = "control"


@dataclass(frozen=True, slots=True)
class Passing:
    """How rows cross the seam in one run."""

    codec: Codec
    meddle: Meddler = leave_alone


async def compare(folder: Path, rows: int, progress: BenchProgress) -> tuple[CodecVerdict, dict[str, int]]:
    """Logits of every arm against raw ones; and the median bytes of a decode frame on the seam, by codec."""
    vocabulary = open_vocabulary(DEMO.path, architecture="llama", context_length=CONTEXT_LENGTH)
    prompts = [tuple(prompt_tokens(vocabulary, prompt)) for prompt in PROMPTS]
    # Two draws of noise: the control is what the others are divided by.
    arms = [(codec.label, Passing(codec)) for codec in Codec]
    arms += [(NOISE, Passing(Codec.RAW, Noise(seed))) for seed in (1, 2)]
    arms.append((WRONG, Passing(Codec.Q8_0, wrong_scales)))
    found: dict[str, Divergence] = defaultdict(Divergence)
    frame_bytes: dict[str, list[int]] = defaultdict(list)
    shards = Shards(MEASURE_WORKER, DEMO.path, (0, DEMO.layers // 2, DEMO.layers), THREADS)
    async with forced_route(shards, folder) as route:
        for number, prompt in enumerate(prompts):
            reference = await route.run(prompt, rows)
            for name, passing in arms:
                progress.now(f"prompt {number + 1}/{len(prompts)} {name}")
                run = await route.run(prompt, rows, codec=passing.codec, forced=reference.tokens, meddle=passing.meddle)
                for row, expected in zip(run.rows, reference.rows, strict=True):
                    found[name].add(row, expected)
                frame_bytes[name] += run.decode_frame_bytes
                progress.advance(RUN_S)
            said = ", ".join(f"{name} {one.mean:.5f}" for name, one in found.items())
            progress.say(f"prompt {number + 1}/{len(prompts)}, mean divergence so far: {said}")
    verdict = CodecVerdict({codec: found[codec.label] for codec in Codec}, found[NOISE], found[WRONG])
    return verdict, {codec.label: round(median(frame_bytes[codec.label])) for codec in Codec}


async def decode_rates(folder: Path, rounds: int, progress: BenchProgress) -> Rounds:
    """Tokens per second of one stream over direct links, by codec, raw twice."""
    rates = Rounds((TWIN, *(codec.label for codec in Codec)))
    arm = Arm("codecs", (DEMO.layers // 2,), str(folder / "compute.turn"), THREADS)
    async with llama_route(folder, arm) as route:
        for name in rates.arms:
            await _rate(route, name)
        yield_to_what_is_measured()
        for number in range(rounds):
            progress.now(f"decode {number + 1}/{rounds}")
            seconds_a_token = dict.fromkeys(rates.arms, 0.0)
            for part in range(SLICES):
                for name in rates.order(number + part):
                    seconds_a_token[name] += 1 / await _rate(route, name) / SLICES
            for name, seconds in seconds_a_token.items():
                rates.add(name, 1 / seconds)
            progress.advance(ROUND_S)
            last = ", ".join(f"{name} {rates.rates[name][-1]:.1f}" for name in rates.arms)
            progress.say(f"decode {number + 1}/{rounds}: {last} tokens/s")
    return rates


async def _rate(route: LlamaRoute, name: str) -> float:
    return await route.tokens_per_s(TOKENS, codec=Codec.RAW if name == TWIN else Codec[name.upper()])


async def pack_times(width: int) -> dict[str, dict[str, float]]:
    """Microseconds to pack and to unpack one row of so many elements, by codec.

    Raises:
        TimeoutError: the program did not end.
        ProgramError: it failed.
    """
    output = json.loads(await output_of([str(PACK_ROWS), str(width), str(PACK_REPEATS)], PACK_TIMEOUT_S))
    return {
        codec.label: {
            "bytes": output[f"CODEC_{codec.name}"]["bytes"],
            "pack_us": round(output[f"CODEC_{codec.name}"]["pack_us"], 3),
            "unpack_us": round(output[f"CODEC_{codec.name}"]["unpack_us"], 3),
        }
        for codec in Codec
    }


async def measure(
    folder: Path, rows: int, rounds: int, progress: BenchProgress
) -> tuple[CodecVerdict, dict[str, int], dict[int, dict[str, dict[str, float]]], Rounds]:
    """Everything, one after the other: nothing else is loaded while something is measured."""
    times = {width: await pack_times(width) for width in WIDTHS}
    verdict, frame_bytes = await compare(folder, rows, progress)
    return verdict, frame_bytes, times, await decode_rates(folder, rounds, progress)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="compared for each prompt")
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN + 2, help="of decoding")
    arguments = parser.parse_args()
    if arguments.rows < 2 or arguments.rounds < 1:
        parser.error("two rows and one round at least")
    if not DEMO.path.exists() or not PACK_ROWS.exists():
        raise SystemExit("bench-codecs: no model or no pack_rows: run `make bench-codecs`, which makes both")
    total_s = RUN_S * len(PROMPTS) * (len(Codec) + 3) + ROUND_S * arguments.rounds
    with tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder, bench_progress(total_s) as progress:
        run = partial(measure, Path(folder), arguments.rows, arguments.rounds, progress)
        verdict, frame_bytes, times, rates = in_own_thread(run)
    failures, control = verdict.failures(), rates.ratio(TWIN, Codec.RAW.label)
    noisy = why_inconclusive([control], [rates.count])
    result = {
        "failures": failures,
        "bars": {codec.label: bar for codec, bar in BARS.items()},
        "vs_noise": {codec.label: round(verdict.ratio(verdict.codecs[codec]), 3) for codec in BARS},
        "wrong_scales_vs_noise": round(verdict.ratio(verdict.wrong_scales), 3),
        "divergence": {codec.label: one.report() for codec, one in verdict.codecs.items()},
        "noise": verdict.noise.report(),
        "wrong_scales": verdict.wrong_scales.report(),
        "frame_bytes_per_token": frame_bytes,
        "row_times": {str(width): one for width, one in times.items()},
        "decode": {
            "control": round(control, 4),
            "inconclusive": noisy,
            "vs_raw": {codec.label: round(rates.ratio(codec.label, Codec.RAW.label), 4) for codec in BARS},
            "tokens_per_s": {name: rounded(values) for name, values in rates.rates.items()},
        },
    }
    return conclude("bench-codecs", result, failures=failures, inconclusive=noisy and f"rates: {noisy}")


if __name__ == "__main__":
    raise SystemExit(main())
