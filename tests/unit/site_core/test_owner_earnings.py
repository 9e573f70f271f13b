"""When a node is told what its owner earned, and who says so."""

from __future__ import annotations

import pytest

from tracker_site.nodes.owner_earnings import INTERVAL_S, EarningsTurn, OwnerEarnings


def test_a_node_is_told_at_once_and_then_now_and_then() -> None:
    turn = EarningsTurn()
    assert turn.take(100.0)
    assert not turn.take(100.0)
    assert not turn.take(100.0 + INTERVAL_S - 0.01)
    assert turn.take(100.0 + INTERVAL_S)
    assert not turn.take(100.0 + INTERVAL_S + 1)


def test_the_lookup_is_given_once_the_applications_are_loaded() -> None:
    earnings = OwnerEarnings()
    with pytest.raises(LookupError):
        earnings.find("node")
    earnings.use(len)
    assert earnings.find("node") == 4
