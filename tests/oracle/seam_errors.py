"""How far rows of one engine are from another's, at one seam. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What counts as the same row: a cosine of `cosine` at least, and `error` at most (see `SeamErrors`)."""

    cosine: float
    error: float


@dataclass(slots=True)
class SeamErrors:
    """Rows compared at one seam.

    Attributes:
        cosine: the smallest of a row.
        error: the largest difference of two elements, over the expected row's root mean square.
        not_finite: rows with a value that is not finite; they are in no other figure.
    """

    rows: int = 0
    not_finite: int = 0
    cosine: float = 1.0
    error: float = 0.0

    def add(self, found: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
        """Compare [rows, elements] with as many.

        Raises:
            ValueError: the shapes differ, or a row of the expected side is zero.
        """
        if found.shape != expected.shape or found.ndim != 2:
            raise ValueError(f"rows of the shapes {found.shape} and {expected.shape}")
        for left, right in zip(found.astype(np.float64), expected.astype(np.float64), strict=True):
            self._add(left, right)

    def _add(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> None:
        self.rows += 1
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            self.not_finite += 1
            return
        size = float(np.sqrt(np.square(right).mean()))
        if not size:
            raise ValueError("a row of zeros proves nothing")
        lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
        self.cosine = min(self.cosine, float(left @ right) / lengths if lengths else 0.0)
        self.error = max(self.error, float(np.abs(left - right).max()) / size)

    def is_within(self, tolerance: Tolerance) -> bool:
        """Whether rows were compared, all finite, and all near enough."""
        near = self.cosine >= tolerance.cosine and self.error <= tolerance.error
        return self.rows > 0 and not self.not_finite and near
