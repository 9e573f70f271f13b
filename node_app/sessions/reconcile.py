"""Compares the sessions that the agent knows with those that its worker has.

Invariant: pure. A difference counts only if it is seen twice in a row, since a session may have been opened after the
worker made its status.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meshnet.ids import SessionKey


@dataclass(frozen=True, slots=True)
class Differences:
    """Sessions that only one side has.

    Attributes:
        vanished: open in the agent but not on the worker (idle for too long, or failed).
        orphaned: open on the worker but unknown to the agent (the opening was cancelled).
    """

    vanished: frozenset[SessionKey] = frozenset()
    orphaned: frozenset[SessionKey] = frozenset()


def compare(known: frozenset[SessionKey], opening: frozenset[SessionKey], listed: frozenset[SessionKey]) -> Differences:
    """Return the differences between the sessions open in the agent (`known`) and on the worker (`listed`).

    Those in `opening` may be on the worker already, so they are not orphaned.
    """
    return Differences(vanished=known - listed, orphaned=listed - known - opening)


def confirmed(before: Differences, now: Differences) -> Differences:
    """Return the differences that are in both comparisons, the earlier one and the present one."""
    return Differences(before.vanished & now.vanished, before.orphaned & now.orphaned)
