"""Compares the sessions the agent knows with those its worker has.

Invariant: pure. A difference counts if it is seen twice in a row, since a status may be older than the last open.
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
    """Return the present differences; a session that is being opened does not count as one."""
    return Differences(vanished=known - listed, orphaned=listed - known - opening)


def confirmed(before: Differences, now: Differences) -> Differences:
    """Return the differences that both comparisons found."""
    return Differences(before.vanished & now.vanished, before.orphaned & now.orphaned)
