"""The findings of the doctor's checks, and their text as lines or JSON.

Invariants: pure. If a finding is not ok, its advice says how to mend it. The exit status is 1 if a check failed;
warnings do not change it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from meshnet.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILED: Final = 1
MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
NAME_WIDTH: Final = 12
VERDICT_WIDTH: Final = 7
# Room for the longest advice, which lists packages.
TEXT_LENGTH_MAX: Final = 600


class Verdict(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"  # a node runs, but less well than it could
    FAILED = "failed"  # a node would not run, or not with the options given


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check, which the doctor prints as one line.

    Attributes:
        check: name of the check, one or two words.
        summary: the result, for people.
        advice: how to mend it; empty if the verdict is OK.
    """

    check: str
    verdict: Verdict
    summary: str
    advice: str = ""


def ok(check: str, summary: str) -> Finding:
    """Return a finding with the verdict OK."""
    return Finding(check, Verdict.OK, summary)


def warning(check: str, summary: str, advice: str) -> Finding:
    """Return a finding with the verdict WARNING."""
    return Finding(check, Verdict.WARNING, summary, advice)


def failed(check: str, summary: str, advice: str) -> Finding:
    """Return a finding with the verdict FAILED."""
    return Finding(check, Verdict.FAILED, summary, advice)


def as_line(finding: Finding) -> str:
    """Return the finding as a line for people, without a line feed."""
    advice = f" -> {one_line(finding.advice, TEXT_LENGTH_MAX)}" if finding.advice else ""
    head = f"{finding.verdict:<{VERDICT_WIDTH}}  {finding.check:<{NAME_WIDTH}}"
    return f"{head}  {one_line(finding.summary, TEXT_LENGTH_MAX)}{advice}"


def as_json(findings: Sequence[Finding]) -> str:
    """Return all findings as one JSON object on one line."""
    counts = {str(verdict): sum(1 for one in findings if one.verdict is verdict) for verdict in Verdict}
    return json.dumps({"checks": [asdict(finding) for finding in findings], "counts": counts})


def summary_line(findings: Sequence[Finding]) -> str:
    """Return the last line of the output, which counts the findings by verdict."""
    parts = [f"{sum(1 for one in findings if one.verdict is verdict)} {verdict}" for verdict in Verdict]
    return f"doctor: {len(findings)} findings: {', '.join(parts)}"


def exit_status(findings: Sequence[Finding]) -> int:
    """Return 1 if there are no findings or the verdict of any is FAILED, else 0."""
    is_bad = not findings or any(finding.verdict is Verdict.FAILED for finding in findings)
    return EXIT_FAILED if is_bad else 0
