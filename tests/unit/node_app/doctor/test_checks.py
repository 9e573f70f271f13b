"""What one check says in the light of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from node_app.doctor.checks import plan_checks
from node_app.doctor.findings import Verdict
from node_app.doctor.judging.site import ControlFacts, HealthFacts
from node_app.doctor.options import parse_options
from node_app.doctor.reading import site

if TYPE_CHECKING:
    from pathlib import Path

    from node_app.doctor.findings import Finding

URL = "http://site.example"
CLOSED = ControlFacts("ws://site.example cannot be opened: it answers with status 400")


def control_findings(state_dir: Path) -> list[Finding]:
    options = parse_options(["--site", URL, "--state-dir", str(state_dir)], {})
    (control,) = [check for check in plan_checks(options) if check.name == "control"]
    return list(control.run())


@pytest.mark.parametrize(
    ("health", "verdicts"),
    [
        (HealthFacts(http_status=200, says_ok=True), [Verdict.FAILED]),
        (HealthFacts(problem=f"{URL} cannot be reached: nothing listens there"), []),
    ],
)
def test_a_control_connection_is_blamed_only_where_the_site_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, health: HealthFacts, verdicts: list[Verdict]
) -> None:
    monkeypatch.setattr(site, "read_control", lambda _: CLOSED)
    monkeypatch.setattr(site, "read_health", lambda _: health)
    assert [finding.verdict for finding in control_findings(tmp_path)] == verdicts


def test_a_control_connection_that_opens_is_told_without_another_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "read_control", lambda _: ControlFacts("", 1, 1))
    monkeypatch.setattr(site, "read_health", lambda _: pytest.fail("asked"))
    assert len(control_findings(tmp_path)) == 1
