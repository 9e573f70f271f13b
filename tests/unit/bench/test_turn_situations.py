"""What a stream gets of a machine that others use too, from rates and moments."""

from __future__ import annotations

import pytest

from tests.bench.pairs import Rounds
from tests.bench.streams import Stream
from tests.bench.turn import Result
from tests.bench.turn_crash import CONTROL, KILLED, STOPPED, control_waits
from tests.bench.turn_situations import ALONE, SITUATIONS, WAYS, Found, Situation, rate_within, window


@pytest.mark.parametrize(
    ("hogs", "cores", "share"), [(0, 2, 1.0), (1, 2, 0.75), (2, 2, 0.5), (3, 2, 5 / 12), (1, 4, 0.875)]
)
def test_every_core_is_shared_equally(hogs: int, cores: int, share: float) -> None:
    assert Situation("any", 1, hogs=hogs).fair_share(cores) == pytest.approx(share)


def test_only_what_both_compute_at_once_counts() -> None:
    one, other = Stream(0.0, [1.0, 2.0, 3.0, 9.0]), Stream(0.0, [1.5, 2.5, 5.5])
    assert window((one, other)) == (1.5, 5.5)
    assert rate_within(one, 1.5, 5.5) == pytest.approx(2 / 4)
    assert rate_within(other, 1.5, 5.5) == pytest.approx(2 / 4)


def test_streams_one_after_the_other_share_nothing() -> None:
    with pytest.raises(ValueError, match="share"):
        window((Stream(0.0, [1.0, 2.0]), Stream(0.0, [2.0, 3.0])))


def _found(situation: Situation, rates: dict[str, float]) -> Found:
    found = Found(situation, Rounds(tuple(f"{way}.{stream}" for way in WAYS for stream in rates)))
    for way in WAYS:
        for stream, rate in rates.items():
            for _ in range(7):
                found.add(f"{way}.{stream}", rate, [1000 / rate, 1000 / rate])
    return found


def _result(control: float = 100.0, killed_ms: float = 3.0) -> Result:
    named = {one.name: one for one in SITUATIONS}
    found = {
        ALONE: _found(named[ALONE], {"unsplit": 100.0, "control": control, "split": 50.0}),
        "third": _found(named["third"], {"split": 25.0, "third": 50.0}),
        "hog2": _found(named["hog2"], {"unsplit": 50.0, "split": 12.5}),
    }
    return Result(found, {KILLED: [killed_ms], STOPPED: [250.0], CONTROL: [900.0]})


def test_a_perfect_rotation_is_called_one() -> None:
    # A token of the route: its own 20 ms, and twice the third's 10 ms.
    beside = _result().report()["third"]
    assert isinstance(beside, dict)
    assert beside["turn"]["of_rotation"] == {"split": 1.0, "third": 1.0}
    assert beside["turn"]["of_undisturbed"] == {"split": 0.5, "third": 0.5, "total": 1.0}
    assert beside["turn"]["steps_max_vs_min"] == 1.0


def test_hogs_leave_a_fair_share() -> None:
    beside = _result().report()["hog2"]
    assert isinstance(beside, dict)
    assert beside["turn"]["of_undisturbed"] == {"unsplit": 0.5, "split": 0.25}
    assert beside["turn"]["split_vs_unsplit"] == 0.25


def test_what_concludes_and_what_does_not() -> None:
    assert _result().inconclusive == ""
    assert _result(control=95.0).inconclusive == "too noisy"
    assert "left alone" in _result(killed_ms=800.0).inconclusive
    assert control_waits({KILLED: [3.0], CONTROL: [900.0]})
