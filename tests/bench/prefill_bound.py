"""What a pipelined prefill can take at best, and where one that took longer was not busy. Pure.

Invariants: the bound knows the simulated machines and lines, and nothing of how the product cuts a prompt but the sizes
that it may choose from; times are milliseconds unless named otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tests.integration.native.step_times import MICROSECONDS_PER_MS, Interval
from tests.simulators.pipelined_route import Machines


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt on equal machines behind equal lines; the Gateway's line to the head is one of them."""

    machines: Machines
    prompt_tokens: int
    latency_ms: float
    bytes_per_s: float | None

    def step_ms(self, rows: int) -> float:
        """t(C)."""
        return (self.machines.fixed_us + self.machines.row_us * rows) / MICROSECONDS_PER_MS

    def transfer_ms(self, rows: int) -> float:
        """C * b / U."""
        return 0.0 if self.bytes_per_s is None else 1000 * rows * self.machines.row_bytes / self.bytes_per_s

    def bound_ms(self, rows: int) -> float:
        """sum t_i(C) + sum L_i + (P / C - 1) * max_i max(t_i(C), C * b / U_i)."""
        stages, interval_ms = self.machines.stages, max(self.step_ms(rows), self.transfer_ms(rows))
        return stages * (self.step_ms(rows) + self.latency_ms) + (self.prompt_tokens / rows - 1) * interval_ms

    def reachable_ms(self, rows: int) -> float:
        """The same, and what each line needs for the first chunk, whose rows a step gives all at once."""
        return self.bound_ms(rows) + (self.machines.stages - 1) * self.transfer_ms(rows)


def best_ms(case: Case, sizes: Sequence[int]) -> tuple[float, float]:
    """The smallest bound over the chunk sizes, and the smallest time that whole chunks can reach."""
    return min(map(case.bound_ms, sizes)), min(map(case.reachable_ms, sizes))


@dataclass(frozen=True, slots=True)
class Idling:
    """What of the steps of one stage is not the engine's time.

    Attributes:
        longer_us: of a step, beyond what it should take; the median.
        gap_us: between a step's end and the next one's begin on the stage that waited least; the median.
    """

    longer_us: float
    gap_us: float


def idling_of(case: Case, stages: Sequence[Sequence[Interval]]) -> Idling:
    """Compare the steps with what they should take.

    Raises:
        StatisticsError: there are fewer than two steps.
    """
    longer = [
        step.end_us - step.begin_us - case.step_ms(step.rows) * MICROSECONDS_PER_MS
        for steps in stages
        for step in steps
    ]
    gaps = [median(later.begin_us - earlier.end_us for earlier, later in pairwise(steps)) for steps in stages]
    return Idling(median(longer), min(gaps))
