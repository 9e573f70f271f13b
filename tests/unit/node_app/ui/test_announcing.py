"""The tray speaks once for a change that a volunteer would want to know, and not otherwise."""

from __future__ import annotations

import pytest

from node_app.ui.announcing import announce
from node_app.ui.contact import Answered, Asked, Contact, Observation, observe
from tests.unit.node_app.statuses import connected, status_bytes

SERVING = connected()
DEGRADED = connected(state="degraded", reason="<b>reason</b>")
WRONG = connected(state="self_test_failed", reason="<b>reason</b>")


@pytest.mark.parametrize(
    ("before", "after", "title"),
    [
        (SERVING, DEGRADED, "The node stopped serving"),
        (SERVING, WRONG, "The node failed its self test"),
        (DEGRADED, WRONG, "The node failed its self test"),
        (SERVING, Observation(Contact.DIED), "The node ended unexpectedly"),
        (SERVING, Observation(Contact.SILENT), "The node does not answer as it should"),
        (SERVING, Observation(Contact.STRANGE), "The node does not answer as it should"),
        (SERVING, observe(SERVING, Asked(12, Answered(200, status_bytes()))), "The node was restarted"),
    ],
)
def test_a_change_for_the_worse_is_told_without_words_from_elsewhere(
    before: Observation, after: Observation, title: str
) -> None:
    said = announce(before, after)
    assert said is not None
    assert said.title == title
    assert "<" not in said.text
    again = announce(after, Observation(after.contact, after.status, after.pid))
    assert again is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SERVING, SERVING),
        (SERVING, connected(state="paused")),
        (SERVING, Observation(Contact.ABSENT)),
        (Observation(), SERVING),
        (Observation(), Observation(Contact.DIED)),
        (Observation(Contact.ABSENT), SERVING),
        (DEGRADED, SERVING),
        (DEGRADED, DEGRADED),
    ],
)
def test_what_was_asked_for_or_is_well_is_not_told(before: Observation, after: Observation) -> None:
    assert announce(before, after) is None
