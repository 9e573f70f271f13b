"""What the oracle counts as the same, and that it cannot pass without having compared anything."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracle.record import CONTROLS, OracleRecord, Tolerances
from tests.oracle.seam_errors import SeamErrors, Tolerance

TOLERANCES = Tolerances(layer=Tolerance(0.999, 0.1), chain=Tolerance(0.99, 0.2))
ROWS = np.array([[1.0, -2.0, 2.0, 1.0], [3.0, 0.0, -1.0, 2.0]], np.float32)


def errors(found: np.ndarray) -> SeamErrors:
    seam = SeamErrors()
    seam.add(found, ROWS)
    return seam


def record(layers: np.ndarray = ROWS, chain: np.ndarray = ROWS, controls: np.ndarray = -ROWS) -> OracleRecord:
    seams = {name: [errors(controls)] for name in CONTROLS}
    return OracleRecord("f32", TOLERANCES, [errors(layers)], [errors(chain)], seams)


def test_equal_rows_have_no_error() -> None:
    same = errors(ROWS)
    assert (same.rows, same.not_finite, same.error) == (2, 0, 0.0)
    assert same.cosine == pytest.approx(1.0)


def test_an_error_is_measured_by_the_size_of_its_row() -> None:
    found = ROWS.copy()
    found[1, 1] += 0.5
    assert errors(found).error == pytest.approx(0.5 / np.sqrt(14 / 4))
    assert errors(found * 1000).cosine == pytest.approx(errors(found).cosine)


def test_what_is_not_finite_is_never_within() -> None:
    found = ROWS.copy()
    found[0, 0] = np.nan
    assert errors(found).not_finite == 1
    assert not errors(found).is_within(Tolerance(-1.0, float("inf")))


def test_shapes_that_differ_and_rows_of_zeros_are_mistakes_of_the_comparison() -> None:
    with pytest.raises(ValueError, match="shapes"):
        SeamErrors().add(ROWS[:1], ROWS)
    with pytest.raises(ValueError, match="zeros"):
        SeamErrors().add(ROWS, np.zeros_like(ROWS))


def test_it_is_good_where_rows_agree_and_controls_do_not() -> None:
    assert record().is_good()
    assert record().controls_seen == 2


@pytest.mark.parametrize(
    "bad", [record(layers=ROWS * 2), record(chain=ROWS * 2), record(controls=ROWS), OracleRecord("f32", TOLERANCES)]
)
def test_it_is_not_good_otherwise(bad: OracleRecord) -> None:
    assert not bad.is_good()


def test_controls_that_were_not_run_are_not_seen_for_success() -> None:
    empty = record()
    empty.controls = {name: [] for name in CONTROLS}
    assert not empty.is_good()
