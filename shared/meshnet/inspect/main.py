"""The entry point of `meshnet inspect`.

Invariant: the exit status is 0 if the report was printed, 1 if a file is wrong or cannot answer the question, and 2 if
the command line is wrong.
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
    """Print a report on a model and return the exit status.

    Raises:
        MeshnetError: a file is wrong, or its model cannot answer the question; the `meshnet` command prints the error.
        SystemExit: the command line is wrong, or help was asked for. argparse has printed the text.
    """
    options = parse_options(arguments)
    report = make_report(options)
    sys.stdout.write((as_json if options.as_json else as_text)(report) + "\n")
    return 0
