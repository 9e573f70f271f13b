"""How a benchmark ends: what missed its bar or could not be concluded, one JSON object, the exit status."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

EXIT_FAILED: Final = 1
EXIT_INCONCLUSIVE: Final = 3


def conclude(bench: str, result: Mapping[str, object], *, failures: Sequence[str] = (), inconclusive: str = "") -> int:
    """Print why, and the result as the last line.

    Args:
        bench: the make target, which every line but the last begins with.
        result: what was measured.
        failures: bars that were missed; they count however noisy the machine was.
        inconclusive: why nothing can be concluded; empty where something can.

    Returns:
        The exit status.
    """
    for line in failures:
        print(f"{bench}: {line}")
    if inconclusive:
        print(f"{bench}: {inconclusive}: neither pass nor fail")
    print(json.dumps(result))
    if failures:
        return EXIT_FAILED
    return EXIT_INCONCLUSIVE if inconclusive else 0
