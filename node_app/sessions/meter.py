"""Measures the rate of events over the last seconds.

Invariants: pure and bounded; the caller passes the time.
"""

from __future__ import annotations

from collections import deque

WINDOW_S = 2.0
EVENTS_MAX = 100_000


class RollingRate:
    """Counts events and tells their rate over the last `WINDOW_S`. Not thread-safe. `now_s` is monotonic."""

    def __init__(self) -> None:
        self._times_s: deque[float] = deque(maxlen=EVENTS_MAX)

    def count(self, now_s: float) -> None:
        """Count one event that happened at `now_s`."""
        self._times_s.append(now_s)
        self._forget(now_s)

    def per_s(self, now_s: float) -> float:
        """Return the events per second, averaged over the last `WINDOW_S`."""
        self._forget(now_s)
        return len(self._times_s) / WINDOW_S

    def _forget(self, now_s: float) -> None:
        while self._times_s and self._times_s[0] <= now_s - WINDOW_S:
            self._times_s.popleft()
