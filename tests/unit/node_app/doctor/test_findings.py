"""Findings are told in one line each, or as one object; only a failure fails."""

from __future__ import annotations

import json

import pytest

from meshnet.printable import one_line
from node_app.doctor.findings import Finding, as_json, as_line, exit_status, failed, ok, summary_line, warning

OK = ok("python", "version 3.12.1")
WARNING = warning("disk", "0.5 GiB free", "make room soon")
FAILED = failed("site", "cannot be reached", "check --site")


def test_a_line_says_the_verdict_the_check_and_what_to_do() -> None:
    assert as_line(OK) == "ok       python        version 3.12.1"
    assert as_line(FAILED) == "failed   site          cannot be reached -> check --site"


def test_text_from_elsewhere_stays_on_one_bounded_line() -> None:
    line = as_line(failed("model", "a\nb\x1b[31m" + "x" * 9000, "c\td"))
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.endswith("-> c d")
    assert len(line) < 700
    assert one_line("  a \n b ") == "a b"


def test_one_object_holds_everything() -> None:
    value = json.loads(as_json([OK, WARNING, FAILED]))
    assert value["counts"] == {"ok": 1, "warning": 1, "failed": 1}
    assert value["checks"][2] == {
        "check": "site",
        "verdict": "failed",
        "summary": "cannot be reached",
        "advice": "check --site",
    }
    assert "\n" not in as_json([OK])


def test_the_counts_in_words() -> None:
    assert summary_line([OK, OK, WARNING]) == "doctor: 3 findings: 2 ok, 1 warning, 0 failed"


@pytest.mark.parametrize(
    ("findings", "status"), [([OK], 0), ([OK, WARNING], 0), ([FAILED], 1), ([OK, FAILED, OK], 1), ([], 1)]
)
def test_only_a_failure_or_no_finding_fails(findings: list[Finding], status: int) -> None:
    assert exit_status(findings) == status
