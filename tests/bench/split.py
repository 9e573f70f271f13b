"""What splitting costs: single-stream decode of the demo model through one worker and through two. `make bench-split`.

Two stages with direct links over TLS on this machine, two threads each, with the machine's compute turn, against the
whole model in one worker; the control is a second worker with the whole model. The last line is one JSON object. Keys
that are not measured yet are named in `absent` and are not there. Exit status 3: too noisy, neither pass nor fail.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.bench.llama_routes import MODEL, Arm, LlamaRoute, llama_route
from tests.bench.pairs import ROUNDS_MIN, Rounds, is_too_noisy, rounded

CUT: Final = (15,)
TOKENS: Final = 64
WARM_UP_TOKENS: Final = 8
EXIT_TOO_NOISY: Final = 3
# No round begins later, so that the whole run stays within ten minutes on a busy machine too.
BUDGET_S: Final = 420.0
ABSENT: Final = (
    "demo.worker_vs_llama_bench_decode",
    "demo.worker_vs_llama_bench_prefill",
    "demo.split_vs_rpc",
    "generated_1b",
    "hop_ratio",
    "decode_frame_bytes",
    "weights_resident_vs_share",
)


async def measure(folder: Path, count: int) -> Rounds:
    """Run `count` rounds of unsplit, its twin and split; fewer where the time is over."""
    turn_path = str(folder / "compute.turn")
    arms = (
        Arm("unsplit", turn_path=turn_path),
        Arm("control", turn_path=turn_path),
        Arm("split", CUT, turn_path),
    )
    rounds = Rounds(tuple(arm.name for arm in arms))
    deadline_s = time.monotonic() + BUDGET_S
    async with contextlib.AsyncExitStack() as stack:
        routes: dict[str, LlamaRoute] = {}
        for arm in arms:
            routes[arm.name] = await stack.enter_async_context(llama_route(folder, arm))
            await routes[arm.name].tokens_per_s(WARM_UP_TOKENS)
        for number in range(count):
            for name in rounds.order(number):
                rounds.add(name, await routes[name].tokens_per_s(TOKENS))
            print(f"round {number + 1}: " + ", ".join(f"{arm} {rounds.rates[arm][-1]:.1f}" for arm in rounds.arms))
            if time.monotonic() > deadline_s:
                break
    return rounds


def report(rounds: Rounds) -> dict[str, object]:
    """The JSON object of the last line."""
    control = rounds.ratio("control", "unsplit")
    return {
        "control": round(control, 4),
        "too_noisy": is_too_noisy(control, rounds.count),
        "rounds": rounds.count,
        "demo": {
            "split_vs_unsplit": round(rounds.ratio("split", "unsplit"), 4),
            "tokens_per_s": {arm: rounded(rates) for arm, rates in rounds.rates.items()},
            "tokens_per_run": TOKENS,
        },
        "absent": ABSENT,
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN + 2)
    rounds_wanted = parser.parse_args().rounds
    if not MODEL.exists():
        raise SystemExit("bench-split: no model: run `make model`")
    with tempfile.TemporaryDirectory(prefix="meshnet-bench-") as folder:
        result = report(asyncio.run(measure(Path(folder), rounds_wanted)))
    print(json.dumps(result))
    return EXIT_TOO_NOISY if result["too_noisy"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
