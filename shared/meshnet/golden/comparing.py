"""Measures how far the rows of a shard are from those of its model's golden probe, and decides if they are near enough.

Invariants: pure. If no rows were compared, or a value is not finite, the comparison fails. Of hidden rows, only the
shard's addition is compared: the output less the input. The output itself is mostly the input, which would hide a layer
that computes nothing. Source: docs/adr/0019, docs/parity.md (Self test).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meshnet.golden.probe import GoldenRows


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The limits for a shard's rows: `cosine` and `error` decide if a row is near, and no row may exceed `wild`.

    Attributes:
        cosine: smallest `RowError.cosine` of a near row.
        error: largest `RowError.error` of a near row.
        wild: largest `RowError.error` of any row. It is generous, because rounding may choose another expert if two of
            them score alike, and then the whole row differs.
    """

    cosine: float
    error: float
    wild: float


# Share of a shard's rows that must be near; a broken kernel spoils more than a quarter of them.
NEAR_PART: Final = 0.75

# SAME_BACKEND is for the engine that made the golden rows, with steps of other sizes; OTHER_BACKEND for any other
# engine.
# Both were measured on one machine; the differences of other processors are not known. Source: docs/parity.md, Self
# test.
SAME_BACKEND: Final = Tolerance(cosine=0.995, error=0.1, wild=0.75)
OTHER_BACKEND: Final = Tolerance(cosine=0.985, error=0.15, wild=0.75)

# If a row is this much longer than expected, it is beyond any tolerance, and its square would overflow a float.
_LARGEST_RATIO: Final = 1e9


def tolerance_for(golden_backend: str, backend: str) -> Tolerance:
    """Return the limits for rows of `backend` if `golden_backend` made the probe; both as exact classes name them."""
    return SAME_BACKEND if backend and backend == golden_backend else OTHER_BACKEND


@dataclass(frozen=True, slots=True)
class RowError:
    """The distance between a shard's addition to one row (output less input) and the expected addition.

    At the head and for logits, the whole row counts as the addition.

    Attributes:
        cosine: cosine of the angle between the two; 0 if a value is not finite.
        error: length of their difference, divided by the length of the expected addition; infinite if a value is not
            finite.
    """

    cosine: float
    error: float


@dataclass(frozen=True, slots=True)
class RowErrors:
    """The distances of all rows that were compared."""

    rows: tuple[RowError, ...] = ()

    @property
    def cosine(self) -> float:
        """The smallest cosine of all rows; 0 if there are none."""
        return min((row.cosine for row in self.rows), default=0.0)

    @property
    def error(self) -> float:
        """The largest error of all rows; infinite if there are none."""
        return max((row.error for row in self.rows), default=math.inf)

    def near(self, tolerance: Tolerance) -> int:
        """Return the number of near rows, which are those within `tolerance.cosine` and `tolerance.error`."""
        return sum(row.cosine >= tolerance.cosine and row.error <= tolerance.error for row in self.rows)

    def is_within(self, tolerance: Tolerance) -> bool:
        """Tell if there are rows, at least `NEAR_PART` of them are near, and none is beyond `tolerance.wild`."""
        enough = self.near(tolerance) >= NEAR_PART * len(self.rows)
        return bool(self.rows) and enough and self.error <= tolerance.wild

    def describe(self, tolerance: Tolerance) -> str:
        """Return a line for a log or an error: the number of near rows, the worst cosine and the largest error."""
        counted = f"{self.near(tolerance)} of {len(self.rows)} rows near"
        return f"{counted}, worst cosine {self.cosine:.5f}, error {self.error:.4f}"

    def __add__(self, other: RowErrors) -> RowErrors:
        return RowErrors(self.rows + other.rows)


def compare_rows(found: GoldenRows, expected: GoldenRows, taken: GoldenRows | None) -> RowErrors:
    """Compare a shard's hidden rows with the golden ones; all are [rows, width].

    Args:
        found: rows that the shard computed.
        expected: rows that it should have computed, from the golden probe.
        taken: rows that went into the shard. They are subtracted from both. None for the head, whose rows are compared
            whole.

    Raises:
        ValueError: the shapes differ.
    """
    _require_alike(found, expected)
    if taken is None:
        return _total(zip(_split(found), _split(expected), strict=True))
    _require_alike(taken, expected)
    rows = zip(_split(found), _split(expected), _split(taken), strict=True)
    return _total((_less(left, base), _less(right, base)) for left, right, base in rows)


def compare_logits(found: GoldenRows, expected: GoldenRows) -> RowErrors:
    """Compare a shard's logits with the golden ones. Each row's mean is subtracted first, since a softmax ignores it.

    Raises:
        ValueError: the shapes differ.
    """
    _require_alike(found, expected)
    pairs = zip(_split(found), _split(expected), strict=True)
    return _total((_centred(left), _centred(right)) for left, right in pairs)


def _require_alike(left: GoldenRows, right: GoldenRows) -> None:
    if (left.rows, left.width) != (right.rows, right.width):
        raise ValueError(f"{left.rows} rows of {left.width} instead of {right.rows} of {right.width}")


def _split(rows: GoldenRows) -> list[Sequence[float]]:
    values = rows.values()
    return [values[begin : begin + rows.width] for begin in range(0, len(values), rows.width)]


def _less(row: Sequence[float], base: Sequence[float]) -> list[float]:
    return [one - other for one, other in zip(row, base, strict=True)]


def _centred(row: Sequence[float]) -> list[float]:
    mean = math.fsum(row) / len(row) if all(map(math.isfinite, row)) else math.nan
    return [one - mean for one in row]


def _total(pairs: Iterable[tuple[Sequence[float], Sequence[float]]]) -> RowErrors:
    return RowErrors(tuple(_compare_row(found, expected) for found, expected in pairs))


def _compare_row(found: Sequence[float], expected: Sequence[float]) -> RowError:
    if not (all(map(math.isfinite, found)) and all(map(math.isfinite, expected))):
        return RowError(0.0, math.inf)
    lengths = math.hypot(*found), math.hypot(*expected)
    distance = math.dist(found, expected)
    if not all(lengths):
        # A row of zeros has no direction: it is right if zeros were expected, and wrong otherwise.
        return RowError(1.0, 0.0) if distance == 0.0 else RowError(0.0, math.inf if not lengths[1] else 1.0)
    # |f - e|^2 = |f|^2 + |e|^2 - 2 f.e; computed with ratios, so that no square overflows.
    ratio, apart = lengths[0] / lengths[1], distance / lengths[1]
    cosine = (ratio**2 + 1.0 - apart**2) / (2.0 * ratio) if ratio < _LARGEST_RATIO else 0.0
    return RowError(max(-1.0, min(1.0, cosine)), apart)
