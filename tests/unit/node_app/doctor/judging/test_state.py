"""The state directory, the node that runs with it, and the enrolment: each good and bad."""

from __future__ import annotations

from dataclasses import replace

import pytest

from node_app.doctor.findings import Verdict
from node_app.doctor.judging.state import (
    AgentFacts,
    DirectoryFacts,
    EnrolmentFacts,
    judge_agent,
    judge_directory,
    judge_enrolment,
)
from tests.unit.node_app.statuses import a_status

GOOD = DirectoryFacts("/s", exists=True, is_directory=True, is_own=True, is_writable=True, mode=0o700)


@pytest.mark.parametrize(
    ("facts", "verdict", "part"),
    [
        (GOOD, Verdict.OK, "private"),
        (replace(GOOD, exists=False, mode=0o755), Verdict.OK, "the node will make it below /s"),
        (replace(GOOD, mode=0o750), Verdict.WARNING, "mode 0750"),
        (replace(GOOD, is_own=False), Verdict.FAILED, "another user"),
        (replace(GOOD, is_writable=False), Verdict.FAILED, "cannot be written"),
        (replace(GOOD, exists=False, is_writable=False), Verdict.FAILED, "cannot be written"),
        (replace(GOOD, is_directory=False), Verdict.FAILED, "no directory"),
    ],
)
def test_directory(facts: DirectoryFacts, verdict: Verdict, part: str) -> None:
    finding = judge_directory(facts)
    assert finding.verdict is verdict
    assert part in finding.summary
    assert bool(finding.advice) == (verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("changes", "node", "relay"),
    [
        ({}, Verdict.OK, Verdict.OK),
        ({"state": "loading"}, Verdict.OK, Verdict.OK),
        ({"state": "paused"}, Verdict.WARNING, Verdict.OK),
        ({"state": "degraded", "reason": "it died"}, Verdict.FAILED, Verdict.OK),
        ({"state": "self_test_failed", "reason": "wrong rows"}, Verdict.FAILED, Verdict.OK),
        ({"notice": "no route takes it"}, Verdict.WARNING, Verdict.OK),
        ({"is_data_connected": False}, Verdict.OK, Verdict.FAILED),
        ({"is_control_connected": False, "is_data_connected": False}, Verdict.OK, Verdict.FAILED),
    ],
)
def test_a_running_node_is_shown(changes: dict[str, object], node: Verdict, relay: Verdict) -> None:
    findings = list(judge_agent(AgentFacts(7, a_status(**changes))))
    assert [finding.verdict for finding in findings] == [node, relay]
    assert "process 7 is" in findings[0].summary
    assert "layers 15:30 of model.gguf, 2 sessions" in findings[0].summary


@pytest.mark.parametrize(
    ("verdict", "expected", "part"),
    [
        ("pending", Verdict.OK, "not done yet"),
        ("put_off", Verdict.WARNING, "some figures"),
        ("absent", Verdict.WARNING, "some figures"),
        ("passed", Verdict.OK, "passed: some figures"),
        ("failed", Verdict.FAILED, "some figures"),
    ],
)
def test_the_self_test_of_a_running_node_is_shown(verdict: str, expected: Verdict, part: str) -> None:
    status = a_status(self_test=verdict, self_test_words="some figures")
    _, finding, _ = judge_agent(AgentFacts(7, status))
    assert (finding.check, finding.verdict) == ("self test", expected)
    assert part in finding.summary
    assert bool(finding.advice) == (expected is not Verdict.OK)


def test_a_node_without_a_site_needs_no_relay() -> None:
    status = a_status(site_url="", is_control_connected=False, is_data_connected=False)
    assert [finding.check for finding in judge_agent(AgentFacts(7, status))] == ["node"]


def test_no_node_is_fine_and_one_that_died_is_not() -> None:
    (none,) = judge_agent(AgentFacts())
    assert (none.verdict, none.advice) == (Verdict.OK, "")
    (died,) = judge_agent(AgentFacts(7, None, "process 7 is gone and left its address file here"))
    assert died.verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("facts", "verdict", "part"),
    [
        (EnrolmentFacts(has_key=True, node_id="n-1"), Verdict.OK, "enrolled as n-1"),
        (EnrolmentFacts(has_key=True, node_id=""), Verdict.OK, "--token or MESHNET_TOKEN"),
        (EnrolmentFacts(has_key=False, node_id=""), Verdict.OK, "--token"),
        (EnrolmentFacts(has_key=False, node_id="n-1"), Verdict.FAILED, "key is gone"),
        (EnrolmentFacts(has_key=True, node_id="", problem="install.key holds no key"), Verdict.FAILED, "install.key"),
    ],
)
def test_enrolment(facts: EnrolmentFacts, verdict: Verdict, part: str) -> None:
    finding = judge_enrolment(facts)
    assert finding.verdict is verdict
    assert part in finding.summary
