"""Counting rows and tokens that differ, and by how much the rows do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Self

import numpy as np


@dataclass(slots=True)
class Comparison:
    """Rows of f32 compared bit for bit. `largest` is the greatest absolute difference of two finite values."""

    rows: int = 0
    mismatched: int = 0
    tokens_differ: int = 0
    not_finite: int = 0
    largest: float = 0.0

    def add(self, found: bytes, expected: bytes) -> None:
        """Compare one row; a row of another length mismatches."""
        self.rows += 1
        if found == expected:
            return
        self.mismatched += 1
        if len(found) != len(expected):
            return
        left, right = np.frombuffer(found, "<f4"), np.frombuffer(expected, "<f4")
        if not np.isfinite(left).all():
            self.not_finite += 1
            return
        self.tokens_differ += int(np.argmax(left) != np.argmax(right))
        self.largest = max(self.largest, float(np.abs(left - right).max()))

    def add_all(self, found: Iterable[bytes], expected: Iterable[bytes]) -> None:
        """Compare row by row.

        Raises:
            ValueError: one side has more rows.
        """
        for left, right in zip(found, expected, strict=True):
            self.add(left, right)

    def __iadd__(self, other: Comparison) -> Self:
        """Add another comparison's counts."""
        self.rows += other.rows
        self.mismatched += other.mismatched
        self.tokens_differ += other.tokens_differ
        self.not_finite += other.not_finite
        self.largest = max(self.largest, other.largest)
        return self

    def __str__(self) -> str:
        """One line for a person."""
        text = f"{self.rows} rows, {self.mismatched} mismatched"
        if self.mismatched:
            text += (
                f" ({self.tokens_differ} other arg max, {self.not_finite} not finite, by {self.largest:.3g} at most)"
            )
        return text


@dataclass(slots=True)
class TokenComparison:
    """Tokens compared one by one."""

    tokens: int = 0
    mismatched: int = 0

    def add_all(self, found: Sequence[int], expected: Sequence[int]) -> None:
        """Compare an answer; a token that is missing or too much mismatches."""
        self.tokens += len(expected)
        self.mismatched += sum(left != right for left, right in zip_longest(found, expected))

    def __iadd__(self, other: TokenComparison) -> Self:
        """Add another comparison's counts."""
        self.tokens += other.tokens
        self.mismatched += other.mismatched
        return self

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.tokens} tokens, {self.mismatched} mismatched"
