"""Single-stream decode of one model, unsplit, once more unsplit (the control) and in two stages, round by round."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.llama_routes import Arm, BenchModel, LlamaRoute, llama_route
from tests.bench.pairs import Rounds, is_outside_band, rounded, traded
from tests.bench.progress import BenchProgress

UNSPLIT, CONTROL, SPLIT = "unsplit", "control", "split"
ARMS: Final = (UNSPLIT, CONTROL, SPLIT)


@dataclass(frozen=True, slots=True)
class Subject:
    """One model that is measured.

    Attributes:
        width: elements of its seam's rows.
        tokens: of one run.
        run_s: how long one run takes on two quiet cores; for the time left only.
        budget_s: no round begins later, so that the whole ends in time on a busy machine too.
    """

    name: str
    model: BenchModel
    width: int
    tokens: int
    run_s: float
    budget_s: float

    def estimated_s(self, pairs: int) -> float:
        """How long so many rounds take on two quiet cores."""
        return len(ARMS) * pairs * self.run_s


@dataclass(slots=True)
class SplitResult:
    """What became of one subject; the last attempt counts."""

    subject: Subject
    attempts: list[Rounds]

    @property
    def rounds(self) -> Rounds:
        """Those that count."""
        return self.attempts[-1]

    @property
    def control(self) -> float:
        """How equal two equal arms were."""
        return self.rounds.ratio(CONTROL, UNSPLIT)

    def report(self) -> dict[str, object]:
        """For the last line."""
        return {
            "split_vs_unsplit": round(self.rounds.ratio(SPLIT, UNSPLIT), 4),
            "control": round(self.control, 4),
            "pairs": self.rounds.count,
            "attempts": len(self.attempts),
            "tokens_per_run": self.subject.tokens,
            "tokens_per_s": {arm: rounded(rates) for arm, rates in self.rounds.rates.items()},
        }


class SplitBench:
    """One subject's three ways to be served, loaded and warm."""

    def __init__(self, subject: Subject, routes: dict[str, LlamaRoute], progress: BenchProgress) -> None:
        self._subject = subject
        self._routes = routes
        self._progress = progress
        self._deadline_s = time.monotonic() + subject.budget_s

    async def result(self, pairs: int, attempts: int) -> SplitResult:
        """Measure; again, while the control is outside its band and there are attempts and time left."""
        result = SplitResult(self._subject, [await self._rounds(pairs)])
        while is_outside_band(result.control) and len(result.attempts) < attempts and self._has_time:
            self._progress.say(f"{self._subject.name}: too noisy (control {result.control:.3f}), measured again")
            self._progress.more(self._subject.estimated_s(pairs))
            result.attempts.append(await self._rounds(pairs))
        return result

    @property
    def _has_time(self) -> bool:
        return time.monotonic() < self._deadline_s

    async def _rounds(self, pairs: int) -> Rounds:
        rounds = Rounds(ARMS)
        for number in range(pairs):
            for name in rounds.order(number):
                self._progress.now(f"{self._subject.name} {number + 1}/{pairs} {name}")
                route = self._routes[traded(name, number, (UNSPLIT, CONTROL))]
                rounds.add(name, await route.tokens_per_s(self._subject.tokens))
                self._progress.advance(self._subject.run_s)
            rates = ", ".join(f"{arm} {rounds.rates[arm][-1]:.1f}" for arm in rounds.arms)
            self._progress.say(f"{self._subject.name} {number + 1}/{pairs}: {rates} tokens/s")
            if not self._has_time:
                break
        return rounds


@contextlib.asynccontextmanager
async def split_bench(folder: Path, subject: Subject, progress: BenchProgress) -> AsyncIterator[SplitBench]:
    """Load and warm up all three. `folder` holds sockets and the compute turn's name."""
    turn_path = str(folder / "compute.turn")
    cuts = {UNSPLIT: (), CONTROL: (), SPLIT: (subject.model.layers // 2,)}
    async with contextlib.AsyncExitStack() as stack:
        routes = {}
        for name in ARMS:
            progress.now(f"{subject.name} loading {name}")
            arm = Arm(f"{subject.name}-{name}", cuts[name], turn_path)
            routes[name] = await stack.enter_async_context(llama_route(folder, arm, subject.model))
        # Only once all are loaded: what loading leaves to be done would fall to whoever runs first.
        for name in ARMS:
            progress.now(f"{subject.name} warming up {name}")
            await routes[name].tokens_per_s(subject.tokens)
        yield SplitBench(subject, routes, progress)
