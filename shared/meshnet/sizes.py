"""Writes numbers of bytes for people, in powers of 1024."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024


def size(size_bytes: int) -> str:
    """Return a size such as "1.50 GiB", in the largest unit in which it is at least 1."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < KIB:
            break
        value, unit = value / KIB, larger
    return f"{size_bytes} B" if unit == "B" else f"{value:.2f} {unit}"
