"""When a child process that died is started again; pure.

Invariant: delays double from the first to the longest while the child keeps dying young, and start over once it lived.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Backoff:
    """Delays between restarts, in seconds."""

    first_s: float = 0.2
    longest_s: float = 10.0
    lived_s: float = 30.0
    _next_s: float = 0.0

    def delay_s(self, alive_s: float) -> float:
        """How long to wait, given how long the child lived."""
        if self._next_s == 0.0 or alive_s >= self.lived_s:
            self._next_s = self.first_s
        delay_s, self._next_s = self._next_s, min(self.longest_s, 2 * self._next_s)
        return delay_s
