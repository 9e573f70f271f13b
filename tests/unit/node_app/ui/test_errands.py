"""Errands: one at a time, each ends, and quitting ends when the agent is gone."""

from __future__ import annotations

import pytest

from node_app.ui.contact import Answered, Cause, Contact, Observation, Unanswered
from node_app.ui.errands import END_DEADLINE_S, Errand, Errands
from tests.unit.node_app.statuses import connected

OK = Answered(200, b"{}")


def test_a_second_click_changes_nothing() -> None:
    pausing = Errands().begin(Errand.PAUSE)
    assert pausing.running is Errand.PAUSE
    assert pausing.begin(Errand.QUIT) is pausing


@pytest.mark.parametrize("errand", [Errand.PAUSE, Errand.RESUME])
def test_an_answer_ends_an_errand(errand: Errand) -> None:
    assert Errands().begin(errand).receive(OK, 0.0) == Errands()


def test_an_answer_to_nothing_changes_nothing() -> None:
    assert Errands().receive(OK, 0.0) == Errands()


@pytest.mark.parametrize("errand", list(Errand))
@pytest.mark.parametrize("reply", [*(Unanswered(cause) for cause in Cause), Answered(401, b""), Answered(500, b"x")])
def test_a_failure_is_told_and_the_next_errand_forgets_it(errand: Errand, reply: Answered | Unanswered) -> None:
    failed = Errands().begin(errand).receive(reply, 0.0)
    assert failed.running is None
    assert failed.problem.startswith(f"The node did not {errand.value[1:]}: ")
    assert failed.begin(Errand.PAUSE) == Errands(Errand.PAUSE)


@pytest.mark.parametrize("contact", [Contact.ABSENT, Contact.DIED])
def test_quitting_is_done_when_the_agent_is_gone(contact: Contact) -> None:
    quitting = Errands().begin(Errand.QUIT).receive(OK, 5.0)
    assert quitting.running is Errand.QUIT
    assert quitting.look(connected(), 6.0) is quitting
    ended = quitting.look(Observation(contact), 7.0)
    assert ended.has_ended
    assert ended.running is None


def test_an_agent_that_does_not_end_is_told_after_the_deadline() -> None:
    quitting = Errands().begin(Errand.QUIT).receive(OK, 5.0)
    assert quitting.look(connected(), 5.0 + END_DEADLINE_S - 0.1) is quitting
    late = quitting.look(connected(), 5.0 + END_DEADLINE_S)
    assert late.running is None
    assert "not ended" in late.problem
    assert not late.has_ended


@pytest.mark.parametrize("running", [None, Errand.PAUSE, Errand.RESUME])
def test_an_agent_that_goes_by_itself_ends_no_tray(running: Errand | None) -> None:
    errands = Errands(running)
    assert errands.look(Observation(Contact.ABSENT), 0.0) is errands
