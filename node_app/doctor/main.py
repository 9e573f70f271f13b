"""`meshnet doctor`: runs the checks and prints their findings.

Invariants: the exit status is 0 if no check failed, 1 if one did or stdout was closed early, and 2 if the command line
is wrong. stdout carries only the findings and a last line that counts them, or with --json one JSON object.
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
# The reader of stdout left before the end, so status 0 would promise too much.
EXIT_UNREAD: Final = 1


def main(arguments: Sequence[str]) -> int:
    """Check this machine, print the findings, and return the exit status."""
    try:
        options = parse_options(arguments, os.environ)
    except SettingsError as error:
        sys.stderr.write(f"meshnet doctor: {error.message} [{error.code}]\n")
        return EXIT_WRONG
    try:
        return _look(options)
    except BrokenPipeError:
        # The reader closed the pipe (`| head`). Without this, flushing the buffer fails when the interpreter ends.
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
