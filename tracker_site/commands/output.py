"""Output of commands: one line of text for people, or one JSON object for scripts."""

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
        text: one line for people.
        fields: the same result for scripts, printed as JSON.
        status: exit status.
    """

    text: str
    fields: Mapping[str, object]
    status: int = 0


def print_outcome(outcome: Outcome, *, is_json: bool) -> None:
    """Print the fields as JSON if `is_json`, otherwise the text; flush stdout."""
    print_line(json.dumps(dict(outcome.fields)) if is_json else outcome.text)


def print_line(line: str) -> None:
    """Write a line to stdout and flush it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
