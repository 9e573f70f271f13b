"""Limits how many lines of a worker's output are logged, since every unknown peer at its link port makes it print one.

Invariants: pure; the lines that a worker prints when it starts are all logged; omitted lines are counted, and their
number is reported with the next line that is logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BURST_LINES: Final = 200
LINES_PER_S: Final = 1.0


@dataclass(slots=True)
class LineBudget:
    """Limits how many of the worker's lines are logged: BURST_LINES at once, LINES_PER_S over a long time.

    Times are in seconds, of one monotonic clock.
    """

    filled_at_s: float
    _lines: float = BURST_LINES
    _left_out: int = 0

    def take(self, now_s: float) -> int | None:
        """Return how many lines were omitted before this one; None if this one must be omitted as well."""
        self._lines = min(BURST_LINES, self._lines + (now_s - self.filled_at_s) * LINES_PER_S)
        self.filled_at_s = now_s
        if self._lines < 1:
            self._left_out += 1
            return None
        self._lines -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out
