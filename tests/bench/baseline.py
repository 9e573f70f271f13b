"""PyTorch over safetensors against llama.cpp over GGUF, on the demo's model. `make bench-baseline`.

    python -m tests.bench.baseline [--rounds N]

The gate of the runtime: whole model and two stages of each, the same prompts. The safetensors hold the GGUF file's
weights as float32, so that both sides compute the same model. Decode rate and time to the first token: arms take turns
within a round; llama.cpp's whole model is there twice, which says how much the machine's noise is. Memory: resident
bytes of every stage's process after the last round. Quality: logits of the prompts' rows through each arm's stages
against those of PyTorch's whole model; rows that lose a quarter of their elements between two stages must not pass.
The last line is one JSON object; exit status 1 where logits differ too much or too little was compared, 3 where the
rates alone were too noisy.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from meshnet.vocab import open_vocabulary
from tests.bench.baseline_arms import CONTEXT_LENGTH, BaselineArm, BaselineRoute, baseline_route
from tests.bench.baseline_verdict import ArmFigures, failures, table
from tests.bench.conclusion import conclude
from tests.bench.llama_routes import DEMO
from tests.bench.pairs import ROUNDS_MIN, Rounds, rounded, traded, why_inconclusive
from tests.bench.programs import in_own_thread, yield_to_what_is_measured
from tests.bench.progress import BenchProgress, bench_progress
from tests.integration.native.native_routes import WORKER
from tests.integration.node_app.reference_worker.torch_routes import torch_worker
from tests.parity.divergence import Divergence
from tests.parity.prompts import PROMPTS
from tests.simulators.damaged_rows import without_a_quarter
from tests.simulators.safetensors_folder import write_safetensors_folder
from unsplit import prompt_tokens

THREADS: Final = 2
# Rows of one probe: their logits stay below the 4 MiB that gRPC clients read.
PROBE_ROWS: Final = 16
PROMPT_ROWS: Final = 64
TOKENS: Final = 24
# A machine's speed drifts from second to second: arms take turns with short runs, so many a round.
SLICES: Final = 2
# llama.cpp decodes many times as fast: as long a run has more tokens.
LLAMA_TOKENS: Final = 72
LOAD_S, LOGITS_S, ROUND_S = 45.0, 25.0, 18.0
LLAMA, TWIN, LLAMA_TWO = "llama_gguf", "llama_gguf_twin", "llama_gguf_two"
TORCH, TORCH_TWO, TORCH_GGUF = "torch_safetensors", "torch_safetensors_two", "torch_gguf"
RATED: Final = (LLAMA, TWIN, LLAMA_TWO, TORCH, TORCH_TWO, TORCH_GGUF)

Routes = Mapping[str, BaselineRoute]


def arms_of(safetensors: Path, torch_program: Path) -> dict[str, BaselineArm]:
    """All arms; the twin comes beside its first."""
    whole, two = (0, DEMO.layers), (0, DEMO.layers // 2, DEMO.layers)
    gguf, torch = "llama.cpp, GGUF Q4_1", "PyTorch, safetensors f32"
    return {
        LLAMA: BaselineArm(f"{gguf}, whole", WORKER, DEMO.path, whole, is_same_arithmetic=False),
        TWIN: BaselineArm(f"{gguf}, whole (control)", WORKER, DEMO.path, whole, is_same_arithmetic=False),
        LLAMA_TWO: BaselineArm(f"{gguf}, 2 stages", WORKER, DEMO.path, two, is_same_arithmetic=False),
        TORCH: BaselineArm(f"{torch}, whole", torch_program, safetensors, whole, is_same_arithmetic=True),
        TORCH_TWO: BaselineArm(f"{torch}, 2 stages", torch_program, safetensors, two, is_same_arithmetic=True),
        TORCH_GGUF: BaselineArm(
            "PyTorch, GGUF Q4_1 dequantised, whole", torch_program, DEMO.path, whole, is_same_arithmetic=True
        ),
    }


def prompts() -> list[tuple[int, ...]]:
    """Equally long pieces of the parity prompts in their chat templates, one after the other."""
    vocabulary = open_vocabulary(DEMO.path, architecture="llama", context_length=CONTEXT_LENGTH)
    ids = [token for prompt in PROMPTS for token in prompt_tokens(vocabulary, prompt)]
    return [tuple(ids[at : at + PROMPT_ROWS]) for at in range(0, len(ids) - PROMPT_ROWS, PROMPT_ROWS)]


async def compare(
    routes: Routes, texts: list[tuple[int, ...]], progress: BenchProgress
) -> tuple[dict[str, Divergence], Divergence]:
    """Logits of every arm but the reference and the twin against the reference's, and the control's."""
    found: dict[str, Divergence] = defaultdict(Divergence)
    damaged = Divergence()
    for text in texts:
        ids = text[:PROBE_ROWS]
        expected = await routes[TORCH].logits(ids)
        for name in RATED:
            if name not in {TORCH, TWIN}:
                for row, other in zip(await routes[name].logits(ids), expected, strict=True):
                    found[name].add(row, other)
        for row, other in zip(await routes[TORCH_TWO].logits(ids, meddle=without_a_quarter), expected, strict=True):
            damaged.add(row, other)
        progress.advance(LOGITS_S / len(texts))
    progress.say("mean divergence: " + ", ".join(f"{name} {one.mean:.3g}" for name, one in found.items()))
    return dict(found), damaged


async def rates(
    routes: Routes, texts: list[tuple[int, ...]], rounds: int, progress: BenchProgress
) -> tuple[Rounds, Rounds]:
    """Tokens a second, and first tokens a second (so that more is better in both), by arm."""
    decode, first = Rounds(RATED), Rounds(RATED)
    for route in routes.values():
        await route.generate(texts[0], 4)
    yield_to_what_is_measured()
    for number in range(rounds):
        progress.now(f"round {number + 1}/{rounds}")
        seconds_a_token, seconds_to_first = (dict.fromkeys(RATED, 0.0) for _ in range(2))
        for part in range(SLICES):
            at = number * SLICES + part
            for name in decode.order(at):
                tokens = LLAMA_TOKENS if routes[name].arm.program == WORKER else TOKENS
                route = routes[traded(name, number, (LLAMA, TWIN))]
                first_ms, tokens_per_s = await route.generate(texts[at % len(texts)], tokens)
                seconds_a_token[name] += 1 / tokens_per_s / SLICES
                seconds_to_first[name] += first_ms / 1000 / SLICES
        for name in RATED:
            decode.add(name, 1 / seconds_a_token[name])
            first.add(name, 1 / seconds_to_first[name])
        progress.advance(ROUND_S)
        said = ", ".join(f"{name} {decode.rates[name][-1]:.1f}" for name in RATED)
        progress.say(f"round {number + 1}/{rounds}: {said} tokens/s")
    return decode, first


async def measure(
    folder: Path, rounds: int, progress: BenchProgress
) -> tuple[dict[str, ArmFigures], Divergence, Rounds, Rounds]:
    """Everything; all arms are loaded throughout."""
    progress.now("writing safetensors")
    safetensors = write_safetensors_folder(DEMO.path, folder / "safetensors")
    texts = prompts()
    async with contextlib.AsyncExitStack() as stack:
        routes = {}
        for name, arm in arms_of(safetensors, torch_worker(folder)).items():
            progress.now(f"loading {arm.name}")
            routes[name] = await stack.enter_async_context(baseline_route(arm, folder / name, THREADS))
            progress.advance(LOAD_S / len(RATED))
        progress.now("comparing logits")
        found, damaged = await compare(routes, texts, progress)
        decode, first = await rates(routes, texts, rounds, progress)
        figures = {
            name: ArmFigures(
                name=route.arm.name,
                tokens_per_s=decode.rates[name],
                first_token_ms=[1000 / rate for rate in first.rates[name]],
                resident_bytes=route.resident_bytes(),
                weights_bytes=route.weights_bytes,
                divergence=found.get(name),
                is_same_arithmetic=route.arm.is_same_arithmetic,
            )
            for name, route in routes.items()
        }
    return figures, damaged, decode, first


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN, help="of decoding")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("one round at least")
    if not DEMO.path.exists() or not WORKER.exists():
        raise SystemExit("bench-baseline: no model or no worker: run `make bench-baseline`, which makes both")
    started_s = time.monotonic()
    total_s = LOAD_S + LOGITS_S + ROUND_S * arguments.rounds
    with tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder, bench_progress(total_s) as progress:
        figures, damaged, decode, first = in_own_thread(partial(measure, Path(folder), arguments.rounds, progress))
    print("\n".join(table(figures)), file=sys.stderr)
    said, control = failures(figures, damaged), decode.ratio(TWIN, LLAMA)
    noisy = why_inconclusive([control], [decode.count])
    pairs = {"torch_vs_llama": (TORCH, LLAMA), "torch_vs_llama_two": (TORCH_TWO, LLAMA_TWO)}
    pairs |= {"llama_two_vs_whole": (LLAMA_TWO, LLAMA), "torch_two_vs_whole": (TORCH_TWO, TORCH)}
    result = {
        "failures": said,
        "arms": {name: one.report() for name, one in figures.items()},
        "damaged": damaged.report(),
        "rounds": decode.count,
        "control": round(control, 4),
        "inconclusive": noisy,
        "decode_ratios": {name: round(decode.ratio(*pair), 4) for name, pair in pairs.items()},
        "first_token_ratios": {name: round(first.ratio(*pair), 4) for name, pair in pairs.items()},
        "tokens_per_s": {name: rounded(values) for name, values in decode.rates.items()},
        "seconds": round(time.monotonic() - started_s, 1),
    }
    return conclude("bench-baseline", result, failures=said, inconclusive=noisy and f"rates: {noisy}")


if __name__ == "__main__":
    raise SystemExit(main())
