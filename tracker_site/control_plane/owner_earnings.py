"""How often a node is told its owner's earnings.

Invariant: pure; a node is told at most once in INTERVAL_S, not with every report.
"""

from __future__ import annotations

from typing import Final

# Seconds between two queries of the ledger for one node.
INTERVAL_S: Final = 15.0


class EarningsTurn:
    """Decides if one node is to be told again. The caller passes the time."""

    def __init__(self) -> None:
        self._due_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Return True if the node is due; it is then not due again for INTERVAL_S. `now_s` is monotonic."""
        if now_s < self._due_s:
            return False
        self._due_s = now_s + INTERVAL_S
        return True
