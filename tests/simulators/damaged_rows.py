"""Rows as a mistake at a seam would leave them: the negative control of every comparison across one."""

from __future__ import annotations

import numpy as np


def without_a_quarter(rows: bytes) -> bytes:
    """float32 rows whose every fourth element is zero."""
    values = np.frombuffer(rows, "<f4").copy()
    values[::4] = 0
    return values.tobytes()
