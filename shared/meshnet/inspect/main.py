"""The entry point of `meshnet inspect`.

Invariant: the exit status is 0 if the question was answered, 1 if a file or the question is refused, and 2 if the
command line is wrong.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from meshnet.inspect.as_json import as_json
from meshnet.inspect.as_text import as_text
from meshnet.inspect.options import parse_options
from meshnet.inspect.report import make_report

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Print a report on a model.

    Raises:
        MeshnetError: a file is wrong or the question has no answer; the `meshnet` command prints it.
        SystemExit: argparse has already told the user.
    """
    options = parse_options(arguments)
    report = make_report(options)
    sys.stdout.write((as_json if options.as_json else as_text)(report) + "\n")
    return 0
