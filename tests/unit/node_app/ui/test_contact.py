"""What the tray knows after each attempt: every outcome after every contact."""

from __future__ import annotations

import itertools

import pytest

from node_app.ui.contact import (
    MISSES_TOLERATED,
    Answered,
    Asked,
    BadAddress,
    Cause,
    Contact,
    NoAddress,
    Observation,
    Outcome,
    Unanswered,
    observe,
)
from tests.unit.node_app.statuses import connected, status_bytes

GOOD = Answered(200, status_bytes())

OUTCOMES: list[tuple[Outcome, Contact]] = [
    (NoAddress(), Contact.ABSENT),
    (BadAddress("damaged"), Contact.STRANGE),
    (Asked(7, GOOD), Contact.CONNECTED),
    (Asked(7, Answered(401, b"{}")), Contact.REFUSED),
    (Asked(7, Answered(403, b"{}")), Contact.REFUSED),
    (Asked(7, Answered(503, b"{}")), Contact.SILENT),
    (Asked(7, Answered(404, b"{}")), Contact.STRANGE),
    (Asked(7, Answered(200, b"<html>hello</html>")), Contact.STRANGE),
    (Asked(7, Unanswered(Cause.NOBODY_LISTENS)), Contact.DIED),
    (Asked(7, Unanswered(Cause.TOO_SLOW)), Contact.SILENT),
    (Asked(7, Unanswered(Cause.TOO_LARGE)), Contact.STRANGE),
    (Asked(7, Unanswered(Cause.BROKEN)), Contact.STRANGE),
]


def test_every_cause_is_among_the_outcomes() -> None:
    causes = {
        outcome.reply.cause
        for outcome, _ in OUTCOMES
        if isinstance(outcome, Asked) and isinstance(outcome.reply, Unanswered)
    }
    assert causes == set(Cause)


@pytest.mark.parametrize(
    ("before", "outcome", "contact"),
    [
        (before, outcome, contact)
        for before, (outcome, contact) in itertools.product(Contact, OUTCOMES)
        if before is not Contact.CONNECTED
    ],
)
def test_an_outcome_is_shown_at_once_where_nothing_good_was(
    before: Contact, outcome: Outcome, contact: Contact
) -> None:
    after = observe(Observation(before, pid=7), outcome)
    assert after.contact is contact
    assert (after.status is not None) == (contact is Contact.CONNECTED)


@pytest.mark.parametrize(("outcome", "contact"), OUTCOMES)
def test_one_failure_after_a_good_answer_is_not_shown_the_next_is(outcome: Outcome, contact: Contact) -> None:
    before = connected(7)
    after = observe(before, outcome)
    if contact in {Contact.CONNECTED, Contact.ABSENT}:
        assert after.contact is contact
        return
    assert (after.contact, after.status, after.misses) == (Contact.CONNECTED, before.status, 1)
    for _ in range(MISSES_TOLERATED):
        after = observe(after, outcome)
    assert (after.contact, after.status) == (contact, None)


def test_a_good_answer_forgets_the_misses() -> None:
    missed = observe(connected(7), Asked(7, Unanswered(Cause.TOO_SLOW)))
    good = observe(missed, Asked(7, GOOD))
    assert good.misses == 0
    assert observe(good, Asked(7, Unanswered(Cause.TOO_SLOW))).contact is Contact.CONNECTED


def test_another_process_that_answers_is_a_restart() -> None:
    assert observe(connected(7), Asked(8, GOOD)).is_restarted
    died = Observation(Contact.DIED, pid=7)
    assert observe(died, Asked(8, GOOD)).is_restarted


def test_a_first_look_a_planned_start_and_the_same_process_are_none() -> None:
    assert not observe(Observation(), Asked(8, GOOD)).is_restarted
    assert not observe(Observation(Contact.ABSENT), Asked(8, GOOD)).is_restarted
    assert not observe(connected(8), Asked(8, GOOD)).is_restarted
    restarted = observe(connected(7), Asked(8, GOOD))
    assert not observe(restarted, Asked(8, Unanswered(Cause.TOO_SLOW))).is_restarted


def test_what_is_strange_says_why() -> None:
    assert observe(Observation(), BadAddress("local_api.json is damaged")).detail == "local_api.json is damaged"
    assert "404" in observe(Observation(), Asked(7, Answered(404, b""))).detail
    assert "sessions" in observe(Observation(), Asked(7, Answered(200, status_bytes(sessions=-1)))).detail
