"""Decides when a node is told its owner's earnings: at most once in INTERVAL_S, not with every report.

Invariant: pure; the caller passes the time.
"""

from __future__ import annotations

from typing import Final

# Seconds between two queries of the ledger for one node.
INTERVAL_S: Final = 15.0


class EarningsTurn:
    """Decides when one node is told its owner's earnings again."""

    def __init__(self) -> None:
        self._due_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Return whether the node is to be told now; if so, not again for INTERVAL_S. `now_s` is monotonic."""
        if now_s < self._due_s:
            return False
        self._due_s = now_s + INTERVAL_S
        return True
