"""Checks run side by side; one that hangs or fails stops no other."""

from __future__ import annotations

import importlib
import threading
import time
from typing import TYPE_CHECKING

from node_app.doctor.check_runs import Check, run_checks
from node_app.doctor.findings import Verdict, ok

if TYPE_CHECKING:
    from collections.abc import Iterator

    from node_app.doctor.findings import Finding


def good(name: str) -> Check:
    return Check(name, 10.0, lambda: [ok(name, "fine"), ok(name, "too")])


def test_findings_come_in_the_order_of_the_checks() -> None:
    slow_may_end = threading.Event()

    def slow() -> list[Finding]:
        assert slow_may_end.wait(10)
        return [ok("slow", "late")]

    def quick() -> list[Finding]:
        slow_may_end.set()
        return [ok("quick", "early")]

    findings = list(run_checks([Check("slow", 10.0, slow), Check("quick", 10.0, quick)]))
    assert [finding.check for finding in findings] == ["slow", "quick"]


def test_a_check_that_hangs_is_told_and_the_others_go_on() -> None:
    release = threading.Event()

    def hang() -> list[Finding]:
        release.wait(30)
        return []

    started_s = time.monotonic()
    findings = list(run_checks([good("a"), Check("stuck", 0.05, hang), good("b")]))
    release.set()
    assert time.monotonic() - started_s < 10
    assert [(finding.check, finding.verdict) for finding in findings] == [
        ("a", Verdict.OK),
        ("a", Verdict.OK),
        ("stuck", Verdict.FAILED),
        ("b", Verdict.OK),
        ("b", Verdict.OK),
    ]
    assert "within 0.05 s" in findings[2].summary


def test_a_check_that_fails_is_told_without_its_words() -> None:
    def fail() -> Iterator[Finding]:
        yield ok("broken", "half")
        raise RuntimeError("the token is hunter2")

    findings = list(run_checks([Check("broken", 10.0, fail), good("a")]))
    assert findings[0].verdict is Verdict.FAILED
    assert findings[0].summary == "could not be checked: RuntimeError"
    assert "hunter2" not in str(findings)
    assert len(findings) == 3


def test_a_missing_package_is_named() -> None:
    check = Check("site", 10.0, lambda: importlib.import_module("no_such_module_here"))
    (finding,) = run_checks([check])
    assert finding.summary == "needs the Python module no_such_module_here"
    assert "pip install" in finding.advice
