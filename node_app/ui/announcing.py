"""Decides when the tray shows a desktop notification.

Invariants: pure. A notification is shown once per change, and only if a volunteer who is busy with other windows would
want to know of it. It holds no text from other programs, since some desktops would read that as markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.shard_facts import NodeState
from node_app.ui.contact import Contact

if TYPE_CHECKING:
    from node_app.ui.contact import Observation


@dataclass(frozen=True, slots=True)
class Announcement:
    """Heading and text of a desktop notification."""

    title: str
    text: str


_LOOK: Final = "Open the Meshnet window for details."


def announce(before: Observation, after: Observation) -> Announcement | None:
    """Return the notification for the change from one observation to the next; None if the volunteer needs none."""
    if after.is_restarted and before.contact is not Contact.UNKNOWN:
        return Announcement("The node was restarted", "It runs as a new process now.")
    failure = _failure(after)
    if failure is not None and failure != _failure(before):
        return failure
    if before.contact is not Contact.CONNECTED:
        return None
    match after.contact:
        case Contact.DIED:
            return Announcement("The node ended unexpectedly", _LOOK)
        case Contact.SILENT | Contact.REFUSED | Contact.STRANGE:
            return Announcement("The node does not answer as it should", _LOOK)
        case _:
            return None


def _failure(observation: Observation) -> Announcement | None:
    """Return the notification for a node that answers but has failed; None for any other state."""
    return None if observation.status is None else _FAILURES.get(observation.status.condition)


_FAILURES: Final = {
    NodeState.DEGRADED: Announcement("The node stopped serving", f"It starts its worker again by itself. {_LOOK}"),
    NodeState.SELF_TEST_FAILED: Announcement(
        "The node failed its self test", f"It computes wrong numbers, so it takes no sessions. {_LOOK}"
    ),
}
