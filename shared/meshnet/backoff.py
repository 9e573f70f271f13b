"""Computes how long to wait before an operation that failed is tried again; the number of tries is not limited.

Waits grow exponentially up to a bound. Each is shortened at random: if many clients lose the same server, they do not
come back all at once. Invariant: pure; the caller gives the random number.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Limits of the waits: they grow from `first_s` to `longest_s`, by `factor` with each failure, before jitter."""

    first_s: float = 0.25
    longest_s: float = 30.0
    factor: float = 2.0

    def delay_s(self, failures: int, jitter: float) -> float:
        """Return the wait before the next try, in seconds; jitter makes it 50 % to 100 % of the full wait.

        Args:
            failures: number of failures in a row, the last one included (1 or more).
            jitter: a random number, uniform in [0, 1).
        """
        # The exponent is bounded, or a node that is offline for weeks would overflow a float.
        steps = min(max(failures, 1) - 1, 64)
        ceiling_s = min(self.longest_s, self.first_s * self.factor**steps)
        return ceiling_s * (0.5 + 0.5 * jitter)
