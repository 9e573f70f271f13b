"""How long to wait before the next try: exponential, jittered, bounded, forever.

Invariant: pure; the caller brings the random number. Jitter keeps many that lost the same thing from coming back at
once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays grow by `factor` from `first_s` to `longest_s`; each is drawn from its upper half."""

    first_s: float = 0.25
    longest_s: float = 30.0
    factor: float = 2.0

    def delay_s(self, failures: int, jitter: float) -> float:
        """Return the wait after `failures` failures in a row (1 or more), in seconds.

        Args:
            failures: consecutive failures, the last one included.
            jitter: uniform in [0, 1).
        """
        # The exponent is bounded so that a node offline for weeks cannot overflow a float.
        steps = min(max(failures, 1) - 1, 64)
        ceiling_s = min(self.longest_s, self.first_s * self.factor**steps)
        return ceiling_s * (0.5 + 0.5 * jitter)
