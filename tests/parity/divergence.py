"""How far one distribution of the next token is from another, over many rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class Divergence:
    """Kullback-Leibler divergence of rows of logits from the expected ones, in nats.

    Attributes:
        rows: compared.
        not_finite: among them, those with a logit that is not finite; they are not in the sums.
        other_arg_max: those whose most probable token is another.
        largest: of one row.
    """

    rows: int = 0
    not_finite: int = 0
    other_arg_max: int = 0
    total: float = 0.0
    largest: float = 0.0

    @property
    def mean(self) -> float:
        """Over the rows; NaN where nothing was compared or a row was not finite."""
        return self.total / self.rows if self.rows and not self.not_finite else float("nan")

    def add(self, found: bytes, expected: bytes) -> None:
        """Compare one row, [vocab] f32 little-endian.

        Raises:
            ValueError: the rows have different lengths.
        """
        left, right = np.frombuffer(found, "<f4"), np.frombuffer(expected, "<f4")
        if left.size != right.size:
            raise ValueError(f"rows of {left.size} and {right.size} logits")
        self.rows += 1
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            self.not_finite += 1
            return
        self.other_arg_max += int(np.argmax(left) != np.argmax(right))
        expected_log, found_log = _log_softmax(right), _log_softmax(left)
        # Rounding may leave a little below zero.
        row = max(0.0, float((np.exp(expected_log) * (expected_log - found_log)).sum()))
        self.total += row
        self.largest = max(self.largest, row)

    def report(self) -> dict[str, object]:
        """For a last line of JSON."""
        return {
            "rows": self.rows,
            "mean_kl": round(self.mean, 6),
            "max_kl": round(self.largest, 6),
            "other_arg_max": self.other_arg_max,
            "not_finite": self.not_finite,
        }


def _log_softmax(row: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = row.astype(np.float64) - float(row.max())
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
