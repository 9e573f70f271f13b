"""Interleaved measurements and what may be concluded from them. Pure.

Invariants: arms of one round run back to back, in an order that turns by one each round, so that slow changes of the
machine reach every arm alike; a ratio is the median of the rounds' own ratios; a control of two equal arms says whether
the run means anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

ROUNDS_MIN: Final = 7
CONTROL_BAND: Final = (0.97, 1.03)


@dataclass
class Rounds:
    """Rates by arm, one a round."""

    arms: tuple[str, ...]
    rates: dict[str, list[float]] = field(default_factory=dict)

    def order(self, number: int) -> tuple[str, ...]:
        """The arms of a round in the order in which they run; every second round runs backwards."""
        shift = (number // 2) % len(self.arms)
        turned = (*self.arms[shift:], *self.arms[:shift])
        return turned if number % 2 == 0 else turned[::-1]

    def add(self, arm: str, rate: float) -> None:
        """Record one measurement of an arm."""
        self.rates.setdefault(arm, []).append(rate)

    def ratio(self, arm: str, against: str) -> float:
        """Median over the rounds of an arm's rate divided by another's.

        Raises:
            ValueError: no round, or not the same number of both.
        """
        return median(self.ratios(arm, against))

    def ratios(self, arm: str, against: str) -> list[float]:
        """An arm's rate divided by another's, round by round.

        Raises:
            ValueError: not the same number of both.
        """
        return [one / other for one, other in zip(self.rates[arm], self.rates[against], strict=True)]

    @property
    def count(self) -> int:
        """Whole rounds."""
        return min(len(self.rates.get(arm, [])) for arm in self.arms)


def traded(arm: str, number: int, twins: tuple[str, str]) -> str:
    """Who plays an arm in a round: two equal ones trade places every second round.

    Where a process' memory happens to lie makes it faster or slower than its twin for all its life (6 % were seen); so
    that belongs neither to the control, which is there for the noise, nor to whom both are compared with.
    """
    if arm not in twins or number // 2 % 2 == 0:
        return arm
    return twins[1 - twins.index(arm)]


def is_outside_band(control: float) -> bool:
    """Whether two equal arms differ too much for anything to be concluded; NaN does too."""
    low, high = CONTROL_BAND
    return not low <= control <= high


def why_inconclusive(controls: Iterable[float], counts: Iterable[int]) -> str:
    """Why nothing can be concluded from rounds, by their controls and their numbers; empty where something can."""
    if any(is_outside_band(control) for control in controls):
        return "too noisy"
    return f"fewer than {ROUNDS_MIN} rounds" if min(counts) < ROUNDS_MIN else ""


def farthest_from_one(ratios: Sequence[float]) -> float:
    """The ratio that says most."""
    return max(ratios, key=lambda ratio: abs(ratio - 1))


def rounded(rates: Sequence[float]) -> list[float]:
    """Rates for the report, tokens per second."""
    return [round(rate, 2) for rate in rates]
