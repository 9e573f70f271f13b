from __future__ import annotations

from meshnet.ids import SessionKey
from node_app.sessions.reconcile import Differences, compare, confirmed

A, B, C = (SessionKey(bytes([number]) * 16, 1) for number in range(3))
NONE: frozenset[SessionKey] = frozenset()


def test_each_side_alone_is_a_difference_and_an_opening_is_none() -> None:
    found = compare(known=frozenset({A}), opening=frozenset({B}), listed=frozenset({B, C}))
    assert found == Differences(vanished=frozenset({A}), orphaned=frozenset({C}))


def test_agreement_is_no_difference() -> None:
    assert compare(frozenset({A}), NONE, frozenset({A})) == Differences()


def test_only_what_was_seen_twice_counts() -> None:
    before = Differences(vanished=frozenset({A, B}), orphaned=frozenset({C}))
    now = Differences(vanished=frozenset({A}), orphaned=NONE)
    assert confirmed(before, now) == Differences(vanished=frozenset({A}), orphaned=NONE)
    assert confirmed(Differences(), now) == Differences()
