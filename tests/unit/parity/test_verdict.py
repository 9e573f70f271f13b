"""The verdict of `make parity`: every way in which a run proves nothing is a failure."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from tests.parity.comparison import Comparison
from tests.parity.noise_control import Control
from tests.parity.record import EVERYTHING, SHORT, Record

ROW = struct.pack("<3f", 1.0, -2.0, 0.5)


def good_record() -> Record:
    answers = 2 * len(EVERYTHING.prompts) * len(EVERYTHING.carriers)
    control = Control(clean=Comparison(rows=8), noisy=Comparison(rows=8, mismatched=8))
    return Record(rows=Comparison(rows=1536), control=control, stack_prompts=answers)


def test_a_good_run_passes() -> None:
    assert good_record().is_good(EVERYTHING)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": Comparison()},
        {"rows": Comparison(rows=999)},
        {"rows": Comparison(rows=1536, mismatched=1)},
        {"stack_prompts": 0},
        {"stack_mismatched": 1},
        {"survivors": 1},
        {"control": Control(clean=Comparison(), noisy=Comparison(rows=8, mismatched=8))},
        {"control": Control(clean=Comparison(rows=8, mismatched=1), noisy=Comparison(rows=8, mismatched=8))},
        {"control": Control(clean=Comparison(rows=8), noisy=Comparison(rows=8))},
    ],
)
def test_a_run_that_proves_nothing_or_finds_something_fails(change: dict[str, object]) -> None:
    assert not replace(good_record(), **change).is_good(EVERYTHING)


def test_the_plans_cover_what_they_promise() -> None:
    for plan in (EVERYTHING, SHORT):
        routes = len(plan.cuts) + len(plan.split_file_cuts)
        assert routes * len(plan.prompts) * plan.rows >= plan.rows_min
        assert all(bounds[0] == 0 and bounds[-1] == 30 for bounds in (*plan.cuts, *plan.split_file_cuts))
    assert {len(bounds) - 1 for bounds in EVERYTHING.cuts} == {2, 3}
    assert EVERYTHING.rows_min >= 1000
    assert len(EVERYTHING.prompts) == 8


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        (ROW, (0, 0, 0)),
        (struct.pack("<3f", 1.0, -2.0, 0.50000006), (1, 0, 0)),
        (struct.pack("<3f", 1.0, 2.0, 0.5), (1, 1, 0)),
        (struct.pack("<3f", 1.0, float("nan"), 0.5), (1, 0, 1)),
        (ROW[:-4], (1, 0, 0)),
        (b"", (1, 0, 0)),
    ],
    ids=["equal", "one_bit", "another_token", "nan", "short", "empty"],
)
def test_rows_are_compared_bit_for_bit(found: bytes, counts: tuple[int, int, int]) -> None:
    comparison = Comparison()
    comparison.add(found, ROW)
    assert comparison.rows == 1
    assert (comparison.mismatched, comparison.tokens_differ, comparison.not_finite) == counts


def test_a_missing_row_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"zip\(\)"):
        Comparison().add_all([ROW], [ROW, ROW])
