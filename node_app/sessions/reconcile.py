"""Compares the sessions the agent knows with those its worker has.

Invariant: pure. A difference counts once it was seen twice in a row, because statuses and opens cross on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meshnet.ids import SessionKey


@dataclass(frozen=True, slots=True)
class Differences:
    """Sessions on one side only.

    Attributes:
        vanished: open for the site, gone on the worker (it went idle, or failed).
        orphaned: on the worker, unknown to the agent (an opening that was cancelled).
    """

    vanished: frozenset[SessionKey] = frozenset()
    orphaned: frozenset[SessionKey] = frozenset()


def compare(known: frozenset[SessionKey], opening: frozenset[SessionKey], listed: frozenset[SessionKey]) -> Differences:
    """Return the differences of this moment; a session that is being opened is none."""
    return Differences(vanished=known - listed, orphaned=listed - known - opening)


def confirmed(before: Differences, now: Differences) -> Differences:
    """Return what both comparisons found."""
    return Differences(before.vanished & now.vanished, before.orphaned & now.orphaned)
