"""How far computed rows are from golden ones, and whether that is near enough.

Invariants: pure; zero rows compared is no success, and a value that is not finite is a failure. What a shard adds is
judged, not the row that leaves it: most of that is the row that came in, which would hide a layer that computes
nothing.
Source: docs/adr/0019, docs/parity.md (Self test).
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
    """What counts as near.

    Attributes:
        cosine: of a near row, at least,
        error: and at most (see `RowError`).
        wild: error of any row at most. Where two experts score alike, rounding chooses, and that row is another one.
    """

    cosine: float
    error: float
    wild: float


# Rows of a shard that must be near; a broken kernel spoils more than a quarter of them.
NEAR_PART: Final = 0.75

# The engine that made the golden rows, in steps of other sizes; and any other engine. Measured on one machine: what
# other processors add is not known. Source: docs/parity.md, Self test.
SAME_BACKEND: Final = Tolerance(cosine=0.995, error=0.1, wild=0.75)
OTHER_BACKEND: Final = Tolerance(cosine=0.985, error=0.15, wild=0.75)

# Rows this much longer than they should be are beyond any tolerance, and their square beyond a float.
_LARGEST_RATIO: Final = 1e9


def tolerance_for(golden_backend: str, backend: str) -> Tolerance:
    """The tolerance between two backends, as exact classes name them."""
    return SAME_BACKEND if backend and backend == golden_backend else OTHER_BACKEND


@dataclass(frozen=True, slots=True)
class RowError:
    """How far one row is from what it should be.

    Attributes:
        cosine: between what was added and what should have been; 0 where a value is not finite.
        error: the length of the difference over the length of what should have been added; infinite where a value is
            not finite.
    """

    cosine: float
    error: float


@dataclass(frozen=True, slots=True)
class RowErrors:
    """What comparing gave, row by row."""

    rows: tuple[RowError, ...] = ()

    @property
    def cosine(self) -> float:
        """The smallest."""
        return min((row.cosine for row in self.rows), default=0.0)

    @property
    def error(self) -> float:
        """The largest."""
        return max((row.error for row in self.rows), default=math.inf)

    def near(self, tolerance: Tolerance) -> int:
        """How many rows are near."""
        return sum(row.cosine >= tolerance.cosine and row.error <= tolerance.error for row in self.rows)

    def is_within(self, tolerance: Tolerance) -> bool:
        """Whether rows were compared, enough of them are near, and none is far off."""
        enough = self.near(tolerance) >= NEAR_PART * len(self.rows)
        return bool(self.rows) and enough and self.error <= tolerance.wild

    def describe(self, tolerance: Tolerance) -> str:
        """The figures in a few words."""
        counted = f"{self.near(tolerance)} of {len(self.rows)} rows near"
        return f"{counted}, worst cosine {self.cosine:.5f}, error {self.error:.4f}"

    def __add__(self, other: RowErrors) -> RowErrors:
        return RowErrors(self.rows + other.rows)


def compare_rows(found: GoldenRows, expected: GoldenRows, taken: GoldenRows | None) -> RowErrors:
    """Compare hidden rows that a shard gave with those that it should have given, all [rows, width].

    Args:
        found: of the shard.
        expected: of the golden probe.
        taken: what went in, and what is added to; None for the head, whose rows are compared whole.

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
    """Compare logits, each row less its mean, which a softmax does not see.

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
        # A row of zeros has no direction: it is right where zeros were expected, and wrong otherwise.
        return RowError(1.0, 0.0) if distance == 0.0 else RowError(0.0, math.inf if not lengths[1] else 1.0)
    # |f - e|^2 = |f|^2 + |e|^2 - 2 f.e, in ratios, so that no square overflows.
    ratio, apart = lengths[0] / lengths[1], distance / lengths[1]
    cosine = (ratio**2 + 1.0 - apart**2) / (2.0 * ratio) if ratio < _LARGEST_RATIO else 0.0
    return RowError(max(-1.0, min(1.0, cosine)), apart)
