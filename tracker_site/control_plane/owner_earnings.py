"""When a node is told what its owner has earned.

Invariant: pure; a node is told now and then, not with every report.
"""

from __future__ import annotations

from typing import Final

# Seconds between two looks at the ledger for one node.
INTERVAL_S: Final = 15.0


class EarningsTurn:
    """Says when one node is to be told again; pure, the caller brings the time."""

    def __init__(self) -> None:
        self._due_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Whether it is time; then it is not again for INTERVAL_S."""
        if now_s < self._due_s:
            return False
        self._due_s = now_s + INTERVAL_S
        return True
