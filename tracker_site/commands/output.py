"""What commands print."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Outcome:
    """A command's result.

    Attributes:
        words: for people, one line.
        fields: for scripts.
        status: exit status.
    """

    words: str
    fields: Mapping[str, object]
    status: int = 0


def print_outcome(outcome: Outcome, *, is_json: bool) -> None:
    """Print one line, at once."""
    print_line(json.dumps(dict(outcome.fields)) if is_json else outcome.words)


def print_line(line: str) -> None:
    """Write a line to stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
