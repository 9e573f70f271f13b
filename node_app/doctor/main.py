"""`meshnet doctor`: puts the checks together and tells what they found.

Invariants: status 0 where nothing failed, 1 where something did, 2 for a wrong command line; stdout carries findings
only, each as soon as it is known, or one JSON object at the end.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from node_app.doctor.check_runs import run_checks
from node_app.doctor.checks import plan_checks
from node_app.doctor.findings import as_json, as_line, exit_status, summary_line
from node_app.doctor.options import parse_options
from node_app.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from node_app.doctor.options import DoctorOptions

EXIT_WRONG: Final = 2
# Nobody heard the findings, so nobody may take them for good.
EXIT_UNREAD: Final = 1


def main(arguments: Sequence[str]) -> int:
    """Look at this machine; return the exit status."""
    try:
        options = parse_options(arguments, os.environ)
    except SettingsError as error:
        sys.stderr.write(f"meshnet doctor: {error.message} [{error.code}]\n")
        return EXIT_WRONG
    try:
        return _look(options)
    except BrokenPipeError:
        # Whoever read has enough (`| head`); what is left in the buffer must not fail at the interpreter's end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNREAD


def _look(options: DoctorOptions) -> int:
    findings = []
    for finding in run_checks(plan_checks(options)):
        findings.append(finding)
        if not options.as_json:
            sys.stdout.write(as_line(finding) + "\n")
            sys.stdout.flush()
    sys.stdout.write((as_json(findings) if options.as_json else summary_line(findings)) + "\n")
    sys.stdout.flush()
    return exit_status(findings)
