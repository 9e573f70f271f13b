"""What may be concluded from interleaved rounds."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.bench.pairs import Rounds, farthest_from_one, is_outside_band, traded

ARMS = ("unsplit", "control", "split")


def rounds_of(**rates: list[float]) -> Rounds:
    rounds = Rounds(ARMS)
    for arm, values in rates.items():
        for value in values:
            rounds.add(arm, value)
    return rounds


def test_every_arm_runs_once_a_round_and_as_often_at_each_place() -> None:
    orders = [Rounds(ARMS).order(number) for number in range(6)]
    assert all(sorted(order) == sorted(ARMS) for order in orders)
    for place in range(len(ARMS)):
        assert Counter(order[place] for order in orders) == dict.fromkeys(ARMS, 2)


def test_a_ratio_is_the_median_of_the_rounds_and_blind_to_what_both_arms_suffer() -> None:
    rounds = rounds_of(unsplit=[100.0, 10.0, 50.0], split=[90.0, 9.0, 25.0], control=[100.0, 10.0, 50.0])
    assert rounds.ratios("split", "unsplit") == pytest.approx([0.9, 0.9, 0.5])
    assert rounds.ratio("split", "unsplit") == pytest.approx(0.9)
    assert rounds.ratio("control", "unsplit") == 1.0
    assert rounds.count == 3


def test_rounds_that_are_not_whole_give_no_ratio() -> None:
    rounds = rounds_of(unsplit=[100.0, 10.0], split=[90.0])
    with pytest.raises(ValueError, match="argument 2"):
        rounds.ratio("split", "unsplit")
    assert rounds.count == 0


@pytest.mark.parametrize(
    ("control", "expected"),
    [(1.0, False), (0.97, False), (1.03, False), (0.969, True), (1.031, True), (math.nan, True)],
)
def test_unequal_controls_conclude_nothing(control: float, expected: bool) -> None:
    assert is_outside_band(control) is expected


def test_twins_trade_places_and_nobody_else_does() -> None:
    twins = ("unsplit", "control")
    for number in range(8):
        played = [traded(arm, number, twins) for arm in ARMS]
        assert sorted(played[:2]) == sorted(twins)
        assert played[2] == "split"
    assert Counter(traded("unsplit", number, twins) for number in range(8)) == dict.fromkeys(twins, 4)


def test_a_twin_that_is_always_slower_does_not_make_the_control_noisy() -> None:
    """The control of the trade: without it the same two processes are outside the band for ever."""
    speed = {"unsplit": 100.0, "control": 106.0, "split": 97.0}
    traded_rounds, kept_rounds = Rounds(ARMS), Rounds(ARMS)
    for number in range(8):
        for arm in ARMS:
            traded_rounds.add(arm, speed[traded(arm, number, ("unsplit", "control"))])
            kept_rounds.add(arm, speed[arm])
    assert not is_outside_band(traded_rounds.ratio("control", "unsplit"))
    assert is_outside_band(kept_rounds.ratio("control", "unsplit"))


def test_the_worst_control_counts() -> None:
    assert farthest_from_one([1.0, 0.98, 1.03]) == 1.03
    assert farthest_from_one([1.01, 0.97]) == 0.97
