"""The divergence of rows of logits."""

from __future__ import annotations

import math
import struct

import pytest

from tests.parity.divergence import Divergence


def row(*logits: float) -> bytes:
    return struct.pack(f"<{len(logits)}f", *logits)


def test_equal_rows_do_not_differ() -> None:
    found = Divergence()
    found.add(row(1.0, -2.0, 3.0), row(1.0, -2.0, 3.0))
    assert (found.rows, found.mean, found.largest, found.other_arg_max) == (1, 0.0, 0.0, 0)


def test_it_is_the_expected_rows_divergence_from_the_found_one() -> None:
    found = Divergence()
    # Expected 3/4 and 1/4, found 1/2 and 1/2; a constant is no difference.
    found.add(row(5.0, 5.0), row(math.log(3.0), 0.0))
    assert found.mean == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5), rel=1e-6)
    found.add(row(0.0, 0.0), row(0.0, 0.0))
    assert found.largest == pytest.approx(2 * found.mean)


def test_another_arg_max_is_counted() -> None:
    found = Divergence()
    found.add(row(0.0, 1.0), row(1.0, 0.0))
    assert found.other_arg_max == 1


def test_nothing_compared_is_no_number() -> None:
    assert math.isnan(Divergence().mean)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_spoils_the_mean(value: float) -> None:
    found = Divergence()
    found.add(row(0.0, 1.0), row(0.0, 1.0))
    found.add(row(0.0, value), row(0.0, 1.0))
    assert (found.rows, found.not_finite) == (2, 1)
    assert math.isnan(found.mean)


def test_rows_of_other_lengths_are_no_comparison() -> None:
    with pytest.raises(ValueError, match="logits"):
        Divergence().add(row(0.0), row(0.0, 1.0))
