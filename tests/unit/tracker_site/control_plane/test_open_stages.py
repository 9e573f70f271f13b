from __future__ import annotations

from meshnet.ids import SessionKey
from tracker_site.control_plane.open_stages import OpenStages

FIRST, SECOND, THIRD = (SessionKey(bytes([number]) * 16, 1) for number in range(3))


def test_an_entry_leaves_once() -> None:
    stages = OpenStages()
    stages.add("node", FIRST, "news")
    assert stages.remove("node", FIRST) == "news"
    assert stages.remove("node", FIRST) is None
    assert stages.remove("stranger", FIRST) is None
    assert len(stages) == 0


def test_a_node_that_comes_back_keeps_what_is_wanted_and_confesses_what_it_lost() -> None:
    stages = OpenStages()
    stages.add("node", FIRST, "one")
    stages.add("node", SECOND, "two")
    stages.add("other", THIRD, "three")
    keep, lost = stages.reconcile("node", [FIRST, THIRD])
    assert keep == {FIRST}
    assert lost == {SECOND: "two"}
    assert stages.of_node("node") == {FIRST: "one"}
    assert stages.of_node("other") == {THIRD: "three"}


def test_an_unknown_node_keeps_nothing() -> None:
    assert OpenStages().reconcile("node", [FIRST]) == (frozenset(), {})
