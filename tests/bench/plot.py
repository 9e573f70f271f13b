"""Ratios of interleaved pairs as lines of dots on one axis. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

CELLS: Final = 41
AXIS: Final = (0.80, 1.20)
# How many pairs fell into a cell; the median's cell is marked.
MARKS: Final = " ·:⁘#"
MEDIAN_MARK: Final = "|"


def plot_ratios(series: Mapping[str, Sequence[float]]) -> list[str]:
    """One line for each series, and the axis; what lies outside is drawn at the edge."""
    widest = max((len(name) for name in series), default=0)
    low, high = AXIS
    middle = f"{(low + high) / 2:.2f}".center(CELLS - 8)
    lines = [f"{name:>{widest}}  {_dots(ratios)}  {median(ratios):.3f}" for name, ratios in series.items() if ratios]
    return [*lines, f"{'':>{widest}}  {low:.2f}{middle}{high:.2f}  median"]


def _dots(ratios: Sequence[float]) -> str:
    counts = [0] * CELLS
    for ratio in ratios:
        counts[_cell(ratio)] += 1
    cells = [MARKS[min(count, len(MARKS) - 1)] for count in counts]
    cells[_cell(median(ratios))] = MEDIAN_MARK
    return "".join(cells)


def _cell(ratio: float) -> int:
    low, high = AXIS
    return min(CELLS - 1, max(0, round((ratio - low) / (high - low) * (CELLS - 1))))
