"""What is shown follows from what is known: every contact, every condition, every errand."""

from __future__ import annotations

import itertools

import pytest

from meshnet.shard_facts import NodeState
from node_app.ui.contact import Contact, Observation
from node_app.ui.errands import Errand, Errands
from node_app.ui.view import Mood, View, present
from tests.unit.node_app.statuses import connected

IDLE = Errands()


def rows(view: View) -> dict[str, str]:
    return {row.label: row.value for row in view.rows}


def test_a_serving_node_shows_its_figures() -> None:
    view = present(connected(credits_micros=12_345_000, self_test="passed"), IDLE)
    assert (view.mood, view.headline, view.detail) == (Mood.SERVING, "Serving", "2 sessions running.")
    assert rows(view) == {
        "Node": "attic",
        "Model": "model.gguf",
        "Layers": "15-29 of 30",
        "Sessions": "2",
        "Speed": "41.2 tokens/s",
        "Credits": "12.345",
        "Memory": "213 MiB",
        "Self test": "passed",
        "Site": "https://site.example (connected)",
        "API": "http://127.0.0.1:8700/v1",
    }
    assert (view.can_pause, view.can_resume, view.can_quit_node, view.needs_start) == (True, False, True, False)
    assert view.tooltip == "Meshnet: Serving\nLayers 15-29 of 30; 2 sessions\n41.2 tokens/s"


@pytest.mark.parametrize(
    ("changes", "mood", "headline", "part"),
    [
        ({"sessions": 0}, Mood.SERVING, "Ready", "Waiting for the next request"),
        ({"sessions": 1}, Mood.SERVING, "Serving", "1 session running"),
        ({"state": "loading"}, Mood.WAITING, "Loading", "layers: 15-29 of 30"),
        ({"state": "loading", "reason": "short of memory"}, Mood.WAITING, "Loading", "Short of memory."),
        ({"state": "paused", "sessions": 0}, Mood.PAUSED, "Paused", "The node takes no new sessions."),
        ({"state": "paused"}, Mood.PAUSED, "Paused", "Still running: 2 sessions."),
        ({"state": "degraded"}, Mood.FAILURE, "Not serving", "The worker is down. The node starts it again by itself."),
        ({"state": "degraded", "reason": "it died."}, Mood.FAILURE, "Not serving", "It died. The node starts it again"),
        ({"state": "self_test_failed"}, Mood.FAILURE, "Self test failed", "computes wrong numbers"),
        ({"state": "self_test_failed", "reason": "0 of 8"}, Mood.FAILURE, "Self test failed", "0 of 8."),
        ({"is_control_connected": False}, Mood.WAITING, "Waiting for the site", "https://site.example cannot"),
        ({"is_data_connected": False}, Mood.WAITING, "Waiting for the relay", "relay cannot be reached"),
        ({"notice": "the file differs"}, Mood.FAILURE, "Ready, but not used", "The file differs."),
    ],
)
def test_each_condition_says_what_it_means(changes: dict[str, object], mood: Mood, headline: str, part: str) -> None:
    view = present(connected(**changes), IDLE)
    assert (view.mood, view.headline) == (mood, headline)
    assert part in view.detail


@pytest.mark.parametrize(
    ("observation", "mood", "headline", "part", "needs_start"),
    [
        (Observation(), Mood.WAITING, "Looking for the node", "", False),
        (Observation(Contact.ABSENT), Mood.ABSENT, "No node is running", "Start one", True),
        (Observation(Contact.DIED, pid=7), Mood.FAILURE, "The node ended unexpectedly", "Process 7 is gone", True),
        (Observation(Contact.SILENT, pid=7), Mood.FAILURE, "The node does not answer", "Process 7 does not", False),
        (Observation(Contact.REFUSED, pid=7), Mood.FAILURE, "The node refuses this window", "another run", False),
        (Observation(Contact.STRANGE, detail="It is {odd}."), Mood.FAILURE, "Another program answers", "{odd}", False),
    ],
)
def test_each_contact_without_a_status_says_what_to_do(
    observation: Observation, mood: Mood, headline: str, part: str, needs_start: bool
) -> None:
    view = present(observation, IDLE)
    assert (view.mood, view.headline, view.needs_start) == (mood, headline, needs_start)
    assert part in view.detail
    assert not any((view.can_pause, view.can_resume, view.can_quit_node))
    assert view.rows == ()


def test_every_contact_is_shown() -> None:
    for contact in Contact:
        if contact is not Contact.CONNECTED:
            assert present(Observation(contact), IDLE).headline


def test_a_paused_node_can_be_resumed_and_no_other() -> None:
    for condition, errand in itertools.product(NodeState, (None, *Errand)):
        view = present(connected(state=str(condition)), Errands(errand))
        is_free = errand is None
        assert view.can_resume == (is_free and condition == "paused")
        assert view.can_pause == (is_free and condition != "paused")
        assert view.can_quit_node == is_free


def test_a_node_that_ends_says_so_until_it_is_gone() -> None:
    for observation in (connected(), Observation(Contact.SILENT)):
        view = present(observation, Errands(Errand.QUIT))
        assert (view.mood, view.headline) == (Mood.WAITING, "The node is ending")
    assert not present(Observation(Contact.ABSENT), Errands(has_ended=True)).needs_start


def test_a_failed_errand_is_shown_beside_the_state() -> None:
    view = present(connected(), Errands(problem="The node did not pause: it did not answer in time."))
    assert (view.headline, view.problem) == ("Serving", "The node did not pause: it did not answer in time.")


def test_the_tool_tip_holds_nothing_from_elsewhere() -> None:
    foreign = "<b>elsewhere</b>"
    texts = dict.fromkeys(("reason", "notice", "name", "model", "site_url", "node_id", "architecture"), foreign)
    for condition in NodeState:
        assert "elsewhere" not in present(connected(state=str(condition), **texts), IDLE).tooltip


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [("absent", "not self-tested"), ("put_off", "put off"), ("failed", "failed"), ("", "-"), ("unheard of", "-")],
)
def test_what_the_self_test_gave_is_shown(verdict: str, shown: str) -> None:
    assert rows(present(connected(self_test=verdict), IDLE))["Self test"] == shown
    assert rows(present(connected(self_test=verdict, site_url=""), IDLE))["Self test"] == "-"


def test_a_node_without_a_site_waits_for_none() -> None:
    alone = {"site_url": "", "node_id": "", "is_control_connected": False, "is_data_connected": False, "sessions": 0}
    view = present(connected(**alone), IDLE)
    assert (view.mood, view.headline) == (Mood.SERVING, "Ready")
    assert rows(view)["Site"] == "none: the node serves this machine only"
    assert rows(present(connected(api_url=""), IDLE))["API"] == "-"


def test_only_the_last_node_knows_the_speed() -> None:
    head = connected(layer_begin=0, layer_end=15)
    assert rows(present(head, IDLE))["Speed"] == "measured by the last node"
    assert "tokens/s" not in present(head, IDLE).tooltip
    assert rows(present(connected(sessions=0), IDLE))["Speed"] == "-"


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({"node_id": "", "is_control_connected": False}, "not enrolled yet"),
        ({"is_control_connected": False, "is_data_connected": False}, "not connected"),
        ({"is_data_connected": False}, "connected, no relay"),
    ],
)
def test_the_site_is_shown_with_how_it_is_reached(changes: dict[str, object], how: str) -> None:
    assert rows(present(connected(**changes), IDLE))["Site"] == f"https://site.example ({how})"
