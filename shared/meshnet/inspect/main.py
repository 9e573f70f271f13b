"""`meshnet inspect`: puts its parts together.

Invariant: status 0 where the question was answered, 1 where a file or the question is refused, 2 for a wrong command
line.
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
    """Look at a model.

    Raises:
        MeshnetError: what is wrong with it, for the command to tell.
        SystemExit: argparse has told the user.
    """
    options = parse_options(arguments)
    report = make_report(options)
    sys.stdout.write((as_json if options.as_json else as_text)(report) + "\n")
    return 0
