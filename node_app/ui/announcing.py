"""When the tray speaks up by itself.

Invariants: pure; only what a volunteer who looks elsewhere would want to know, once for each change; no text from
elsewhere, which some desktops would read as markup.
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
    """A few words for a heading, and a sentence."""

    title: str
    text: str


_LOOK: Final = "The window says more."


def announce(before: Observation, after: Observation) -> Announcement | None:
    """Return what to say about a change, None where it says itself or is of no interest."""
    if after.is_restarted and before.contact is not Contact.UNKNOWN:
        return Announcement("The node was restarted", "Another process serves now.")
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
    """What to say of a node that answers and does not serve; None where it does, or is on its way."""
    return None if observation.status is None else _FAILURES.get(observation.status.condition)


_FAILURES: Final = {
    NodeState.DEGRADED: Announcement("The node stopped serving", f"It is started again by itself. {_LOOK}"),
    NodeState.SELF_TEST_FAILED: Announcement(
        "The node failed its self test", f"It computes wrong numbers and serves nobody. {_LOOK}"
    ),
}
