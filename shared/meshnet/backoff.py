"""Computes how long to wait before the next try: exponential, bounded, with jitter, forever.

Invariant: pure; the caller gives the random number. If many clients lose the same server, jitter keeps them from coming
back all at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that grow by `factor` from `first_s` to `longest_s`; each wait is a random part of one, at least half."""

    first_s: float = 0.25
    longest_s: float = 30.0
    factor: float = 2.0

    def delay_s(self, failures: int, jitter: float) -> float:
        """Return the wait in seconds.

        Args:
            failures: number of failures in a row, the last one included (1 or more).
            jitter: a random number, uniform in [0, 1).
        """
        # The exponent is bounded, or a node that is offline for weeks would overflow a float.
        steps = min(max(failures, 1) - 1, 64)
        ceiling_s = min(self.longest_s, self.first_s * self.factor**steps)
        return ceiling_s * (0.5 + 0.5 * jitter)
