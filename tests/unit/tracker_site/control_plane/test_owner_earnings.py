"""When a node is told what its owner earned."""

from __future__ import annotations

from tracker_site.control_plane.owner_earnings import INTERVAL_S, EarningsTurn


def test_a_node_is_told_at_once_and_then_now_and_then() -> None:
    turn = EarningsTurn()
    assert turn.take(100.0)
    assert not turn.take(100.0)
    assert not turn.take(100.0 + INTERVAL_S - 0.01)
    assert turn.take(100.0 + INTERVAL_S)
    assert not turn.take(100.0 + INTERVAL_S + 1)
