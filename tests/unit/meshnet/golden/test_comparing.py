"""What counts as the same rows, and that nothing compared is not it."""

from __future__ import annotations

import math
import random
import struct

import pytest

from meshnet.golden.comparing import (
    OTHER_BACKEND,
    SAME_BACKEND,
    RowError,
    RowErrors,
    compare_logits,
    compare_rows,
    tolerance_for,
)
from meshnet.golden.probe import GoldenRows

WIDTH = 64
DRAWN = random.Random(7)


def rows(*values: list[float]) -> GoldenRows:
    flat = [value for row in values for value in row]
    return GoldenRows(len(values), len(values[0]), struct.pack(f"<{len(flat)}f", *flat))


def noise(size: float) -> list[float]:
    return [DRAWN.gauss(0.0, size) for _ in range(WIDTH)]


def plus(row: list[float], other: list[float]) -> list[float]:
    return [one + two for one, two in zip(row, other, strict=True)]


TAKEN = [noise(10.0) for _ in range(8)]
GIVEN = [plus(row, noise(1.0)) for row in TAKEN]


def errors(*found: list[float]) -> RowErrors:
    return compare_rows(rows(*found), rows(*GIVEN), rows(*TAKEN))


def test_the_same_rows_have_no_error() -> None:
    same = errors(*GIVEN)
    assert (len(same.rows), same.error) == (8, 0.0)
    assert same.cosine == pytest.approx(1.0)
    assert same.is_within(SAME_BACKEND)


def test_nothing_compared_is_no_success() -> None:
    assert not RowErrors().is_within(OTHER_BACKEND)


def test_a_layer_that_computes_nothing_is_seen_though_the_rows_look_alike() -> None:
    """The rows that come in are most of the rows that come out: whole rows would say 0.995."""
    lazy = errors(*TAKEN)
    assert not lazy.is_within(OTHER_BACKEND)
    assert lazy.error == pytest.approx(1.0, rel=1e-3)
    whole = compare_rows(rows(*TAKEN), rows(*GIVEN), None)
    assert whole.cosine > 0.99


def test_rounding_is_near_and_noise_is_not() -> None:
    assert errors(*(plus(row, noise(0.03)) for row in GIVEN)).is_within(SAME_BACKEND)
    middling = errors(*(plus(row, noise(0.12)) for row in GIVEN))
    assert (middling.is_within(SAME_BACKEND), middling.is_within(OTHER_BACKEND)) == (False, True)
    assert not errors(*(plus(row, noise(0.6)) for row in GIVEN)).is_within(OTHER_BACKEND)


def test_two_rows_of_eight_may_be_others_and_three_may_not() -> None:
    def with_odd(count: int, size: float) -> RowErrors:
        return errors(*(plus(row, noise(size if at < count else 0.0)) for at, row in enumerate(GIVEN)))

    assert with_odd(2, 0.4).is_within(OTHER_BACKEND)
    assert not with_odd(3, 0.4).is_within(OTHER_BACKEND)
    assert not with_odd(1, 2.0).is_within(OTHER_BACKEND)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_fails_alone(odd: float) -> None:
    found = errors([odd, *GIVEN[0][1:]], *GIVEN[1:])
    assert found.rows[0] == RowError(0.0, math.inf)
    assert not found.is_within(OTHER_BACKEND)
    assert not compare_logits(rows([odd, 1.0]), rows([2.0, 1.0])).is_within(OTHER_BACKEND)


def test_rows_of_zeros_are_right_where_zeros_belong() -> None:
    assert compare_rows(rows(TAKEN[0]), rows(TAKEN[0]), rows(TAKEN[0])).is_within(SAME_BACKEND)
    for found, expected in ((TAKEN[0], GIVEN[0]), (GIVEN[0], TAKEN[0])):
        assert not compare_rows(rows(found), rows(expected), rows(TAKEN[0])).is_within(OTHER_BACKEND)


def test_rows_far_too_long_are_wrong_and_no_number_overflows() -> None:
    huge = compare_rows(rows([3e38] * 4), rows([1e-30] * 4), None)
    assert huge.cosine == 0.0
    assert not huge.is_within(OTHER_BACKEND)


def test_logits_count_less_their_mean() -> None:
    expected = rows([1.0, 2.0, 4.0])
    assert compare_logits(rows([101.0, 102.0, 104.0]), expected).error == pytest.approx(0.0)
    assert compare_logits(rows([4.0, 2.0, 1.0]), expected).error > 1.0


def test_other_shapes_are_no_rows() -> None:
    with pytest.raises(ValueError, match="1 rows of 2 instead of 1 of 3"):
        compare_rows(rows([1.0, 2.0]), rows([1.0, 2.0, 3.0]), None)
    with pytest.raises(ValueError, match="instead of"):
        compare_logits(rows([1.0, 2.0]), rows([1.0, 2.0], [1.0, 2.0]))


def test_the_tolerance_is_tighter_between_equal_backends() -> None:
    assert tolerance_for("cpu", "cpu") == SAME_BACKEND
    assert tolerance_for("cpu", "vulkan") == tolerance_for("", "") == OTHER_BACKEND
