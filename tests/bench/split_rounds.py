"""One stream of one model: unsplit, once more unsplit (the control), in two stages, and in llama.cpp's own programs."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.llama_cpp import OURS, UPSTREAM, LlamaBench, Load, Rates, rpc_bench
from tests.bench.llama_routes import Arm, BenchModel, LlamaRoute, llama_route
from tests.bench.pairs import Rounds, is_outside_band, rounded, traded
from tests.bench.programs import yield_to_what_is_measured
from tests.bench.progress import BenchProgress
from tests.bench.resident import ResidentWeights

UNSPLIT, CONTROL, SPLIT = "unsplit", "control", "split"
LLAMA_BENCH, RPC, UPSTREAM_BENCH = "llama_bench", "rpc", "upstream_llama_bench"
OURS_ARMS: Final = (UNSPLIT, CONTROL, SPLIT)
PEERS: Final = (LLAMA_BENCH, RPC, UPSTREAM_BENCH)
ARMS: Final = (*OURS_ARMS, *PEERS)
THREADS: Final = 2
# A machine's speed drifts from second to second: a run of ours is cut into so many, and the arms take turns with them.
SLICES: Final = 4


@dataclass(frozen=True, slots=True)
class Subject:
    """One model that is measured.

    Attributes:
        width: elements of its seam's rows.
        load: of one run.
        round_s: how long one round of all arms takes on two quiet cores; for the time left only.
        budget_s: no round begins later, so that the whole ends in time on a busy machine too.
    """

    name: str
    model: BenchModel
    width: int
    load: Load
    round_s: float
    budget_s: float


@dataclass(slots=True)
class Attempt:
    """The rounds of one attempt, by what was timed."""

    decode: Rounds
    prefill: Rounds

    @property
    def control(self) -> float:
        """How equal two equal arms were while they decoded."""
        return self.decode.ratio(CONTROL, UNSPLIT)


@dataclass(slots=True)
class SplitResult:
    """What became of one subject; the last attempt counts.

    Attributes:
        resident: by stage of the split route.
    """

    subject: Subject
    attempts: list[Attempt]
    resident: list[ResidentWeights]

    @property
    def last(self) -> Attempt:
        """The one that counts."""
        return self.attempts[-1]

    def report(self) -> dict[str, object]:
        """For the last line."""
        decode, prefill = self.last.decode, self.last.prefill
        return {
            "split_vs_unsplit": round(decode.ratio(SPLIT, UNSPLIT), 4),
            "worker_vs_llama_bench_decode": round(decode.ratio(UNSPLIT, LLAMA_BENCH), 4),
            "worker_vs_llama_bench_prefill": round(prefill.ratio(UNSPLIT, LLAMA_BENCH), 4),
            "split_vs_rpc": round(decode.ratio(SPLIT, RPC), 4),
            "split_vs_rpc_prefill": round(prefill.ratio(SPLIT, RPC), 4),
            "split_vs_unsplit_prefill": round(prefill.ratio(SPLIT, UNSPLIT), 4),
            "worker_vs_upstream_decode": round(decode.ratio(UNSPLIT, UPSTREAM_BENCH), 4),
            "worker_vs_upstream_prefill": round(prefill.ratio(UNSPLIT, UPSTREAM_BENCH), 4),
            "control": round(self.last.control, 4),
            "control_prefill": round(prefill.ratio(CONTROL, UNSPLIT), 4),
            "pairs": decode.count,
            "attempts": len(self.attempts),
            "threads": THREADS,
            "decode_tokens": self.subject.load.decode_tokens,
            "prompt_tokens": self.subject.load.prompt_tokens,
            "decode_tokens_per_s": {arm: rounded(rates) for arm, rates in decode.rates.items()},
            "prefill_tokens_per_s": {arm: rounded(rates) for arm, rates in prefill.rates.items()},
            "resident": [one.report() for one in self.resident],
        }


class SplitBench:
    """One subject's ways to be served, loaded and warm."""

    def __init__(
        self, subject: Subject, routes: dict[str, LlamaRoute], peers: dict[str, LlamaBench], progress: BenchProgress
    ) -> None:
        self._subject = subject
        self._routes = routes
        self._peers = peers
        self._progress = progress
        self._deadline_s = time.monotonic() + subject.budget_s

    async def attempts(self, pairs: int, attempts: int) -> list[Attempt]:
        """Measure; again, while the control is outside its band and there are attempts and time left."""
        made = [await self._rounds(pairs)]
        while is_outside_band(made[-1].control) and len(made) < attempts and self._has_time:
            self._progress.say(f"{self._subject.name}: too noisy (control {made[-1].control:.3f}), measured again")
            self._progress.more(self._subject.round_s * pairs)
            made.append(await self._rounds(pairs))
        return made

    @property
    def _has_time(self) -> bool:
        return time.monotonic() < self._deadline_s

    async def _rounds(self, pairs: int) -> Attempt:
        attempt = Attempt(Rounds(ARMS), Rounds(ARMS))
        blocks = Rounds((UNSPLIT, *PEERS))
        for number in range(pairs):
            for name in blocks.order(number):
                self._progress.now(f"{self._subject.name} {number + 1}/{pairs} {name}")
                found = await self._ours(number) if name == UNSPLIT else {name: await self._peer(name)}
                for arm, rates in found.items():
                    attempt.decode.add(arm, rates.decode)
                    attempt.prefill.add(arm, rates.prefill)
                self._progress.advance(self._subject.round_s / len(blocks.arms))
            self._progress.say(f"{self._subject.name} {number + 1}/{pairs}: {_last(attempt)}")
            if not self._has_time:
                break
        return attempt

    async def _peer(self, name: str) -> Rates:
        return await self._peers[name].rates(self._subject.load)

    async def _ours(self, number: int) -> dict[str, Rates]:
        """One round of our own arms: prompts one after the other, then slices of decoding in turns."""
        load, order = self._subject.load, Rounds(OURS_ARMS)
        players = {arm: self._routes[traded(arm, number, (UNSPLIT, CONTROL))] for arm in OURS_ARMS}
        prefill = {arm: await players[arm].prompt_tokens_per_s(load.prompt_tokens) for arm in order.order(number)}
        seconds_a_token = dict.fromkeys(OURS_ARMS, 0.0)
        for part in range(SLICES):
            for arm in order.order(number + part):
                rate = await players[arm].tokens_per_s(load.decode_tokens // SLICES)
                seconds_a_token[arm] += 1 / rate / SLICES
        return {arm: Rates(decode=1 / seconds_a_token[arm], prefill=prefill[arm]) for arm in OURS_ARMS}


def _last(attempt: Attempt) -> str:
    decode, prefill = attempt.decode.rates, attempt.prefill.rates
    return ", ".join(f"{arm} {decode[arm][-1]:.1f}/{prefill[arm][-1]:.0f}" for arm in ARMS) + " tokens/s"


async def measure_split(
    folder: Path, subject: Subject, progress: BenchProgress, pairs: int, attempts: int
) -> SplitResult:
    """Load, warm up and measure one subject. `folder` holds sockets and the compute turn's name."""
    turn_path = str(folder / "compute.turn")
    cuts = {UNSPLIT: (), CONTROL: (), SPLIT: (subject.model.layers // 2,)}
    async with contextlib.AsyncExitStack() as stack:
        routes: dict[str, LlamaRoute] = {}
        for name, own in cuts.items():
            progress.now(f"{subject.name} loading {name}")
            arm = Arm(f"{subject.name}-{name}", own, turn_path, THREADS)
            routes[name] = await stack.enter_async_context(llama_route(folder, arm, subject.model))
        peers = {
            LLAMA_BENCH: LlamaBench(OURS, subject.model.path, THREADS),
            RPC: await stack.enter_async_context(rpc_bench(UPSTREAM, subject.model.path, THREADS)),
            UPSTREAM_BENCH: LlamaBench(UPSTREAM, subject.model.path, THREADS),
        }
        # Only once all are loaded: what loading leaves to be done would fall to whoever runs first.
        for name in OURS_ARMS:
            progress.now(f"{subject.name} warming up {name}")
            await routes[name].tokens_per_s(subject.load.decode_tokens)
            await routes[name].prompt_tokens_per_s(subject.load.prompt_tokens)
        yield_to_what_is_measured()
        bench = SplitBench(subject, routes, peers, progress)
        return SplitResult(subject, await bench.attempts(pairs, attempts), routes[SPLIT].resident())
