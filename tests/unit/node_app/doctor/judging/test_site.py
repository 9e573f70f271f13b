"""The site's answers: the right one, and each way to be wrong."""

from __future__ import annotations

import pytest

from meshnet.constants import WIRE_VERSION, WIRE_VERSION_MIN
from node_app.doctor.findings import Verdict
from node_app.doctor.judging.site import ControlFacts, HealthFacts, judge_control, judge_health


@pytest.mark.parametrize(
    ("facts", "verdict", "part"),
    [
        (HealthFacts(http_status=200, says_ok=True, round_trip_ms=12.4), Verdict.OK, "answers in 12 ms"),
        (HealthFacts(problem="https://s cannot be reached"), Verdict.FAILED, "cannot be reached"),
        (HealthFacts(http_status=301, location="https://other/"), Verdict.FAILED, "https://other/"),
        (HealthFacts(http_status=503), Verdict.FAILED, "out of order"),
        (HealthFacts(http_status=404), Verdict.FAILED, "no Meshnet site (status 404)"),
        (HealthFacts(http_status=200, says_ok=False), Verdict.FAILED, "no Meshnet site (status 200)"),
    ],
)
def test_health(facts: HealthFacts, verdict: Verdict, part: str) -> None:
    (finding,) = judge_health(facts)
    assert finding.verdict is verdict
    assert part in finding.summary
    assert bool(finding.advice) == (verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("skew_s", "part"), [(-3.0, "agrees"), (7200.0, "7200 s ahead of"), (-86400.0, "86400 s behind")]
)
def test_another_clock_is_information_and_no_fault(skew_s: float, part: str) -> None:
    _, clock = judge_health(HealthFacts(http_status=200, says_ok=True, skew_s=skew_s))
    assert clock.verdict is Verdict.OK
    assert part in clock.summary


@pytest.mark.parametrize(
    ("facts", "verdict", "part"),
    [
        (ControlFacts("", WIRE_VERSION_MIN, WIRE_VERSION), Verdict.OK, f"wire version {WIRE_VERSION}"),
        (ControlFacts("", WIRE_VERSION, WIRE_VERSION + 5), Verdict.OK, f"wire version {WIRE_VERSION}"),
        (ControlFacts("", 0, WIRE_VERSION_MIN - 1), Verdict.FAILED, "older than ours"),
        (ControlFacts("", WIRE_VERSION + 1, WIRE_VERSION + 2), Verdict.FAILED, "newer than ours"),
        (ControlFacts("ws://s cannot be opened"), Verdict.FAILED, "cannot be opened"),
    ],
)
def test_control(facts: ControlFacts, verdict: Verdict, part: str) -> None:
    finding = judge_control(facts)
    assert finding.verdict is verdict
    assert part in finding.summary
