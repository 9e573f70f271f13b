"""What a node's owner has earned, for the volunteer's eyes; the ledger lies above the register of nodes.

Invariants: the ledger's application gives the lookup, once, when the applications are loaded; a node is told now and
then, not with every report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds between two looks at the ledger for one node.
INTERVAL_S: Final = 15.0

# From a node's id: micro-credits of its owner that are earned and not made spendable.
EarningsLookup: TypeAlias = "Callable[[str], int]"


class OwnerEarnings:
    """Where the lookup is kept."""

    def __init__(self) -> None:
        self._lookup: EarningsLookup | None = None

    def use(self, lookup: EarningsLookup) -> None:
        """Look earnings up this way from now on."""
        self._lookup = lookup

    def find(self, node_id: str) -> int:
        """The earnings of a node's owner, in micro-credits; one query.

        Raises:
            LookupError: nobody has given a lookup; the applications are not loaded.
        """
        if self._lookup is None:
            raise LookupError("the ledger is not loaded")
        return self._lookup(node_id)


owner_earnings = OwnerEarnings()


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
