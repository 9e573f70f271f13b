"""Judges the site: whether it answers, whether it speaks our wire versions, and how far its clock is from ours."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from meshnet.constants import WIRE_VERSION, WIRE_VERSION_MIN
from node_app.doctor.findings import Finding, failed, ok

if TYPE_CHECKING:
    from collections.abc import Iterator

SKEW_TOLD_S: Final = 60.0
_ADDRESS: Final = "check --site, the network and the firewall"


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """The site's answer to a request for `/healthz`, or the reason why no answer came.

    Attributes:
        problem: why no answer came, for people; empty if the site answered.
        location: address to which the answer redirects; empty if it is no redirect.
        says_ok: whether the answer's body is that of a healthy site.
        skew_s: this machine's clock minus the site's, in seconds; None if the answer has no date.
    """

    problem: str = ""
    http_status: int = 0
    location: str = ""
    says_ok: bool = False
    round_trip_ms: float = 0.0
    skew_s: float | None = None


def judge_health(facts: HealthFacts) -> Iterator[Finding]:
    """Judge whether a healthy site answers, and how far the clocks are apart."""
    yield _judge_answer(facts)
    if facts.skew_s is not None:
        yield _judge_skew(facts.skew_s)


def _judge_answer(facts: HealthFacts) -> Finding:
    if facts.problem:
        return failed("site", facts.problem, _ADDRESS)
    if facts.location:
        return failed("site", f"redirects to {facts.location}", "name that address with --site")
    if facts.http_status == HTTPStatus.SERVICE_UNAVAILABLE:
        return failed("site", "answers that it is out of order (status 503)", "wait, or tell the site's administrator")
    if facts.http_status != HTTPStatus.OK or not facts.says_ok:
        return failed("site", f"the server there is no Meshnet site (status {facts.http_status})", "check --site")
    return ok("site", f"answers in {facts.round_trip_ms:.0f} ms")


def _judge_skew(skew_s: float) -> Finding:
    if abs(skew_s) < SKEW_TOLD_S:
        return ok("site clock", "agrees with this machine's clock")
    direction = "ahead of" if skew_s > 0 else "behind"
    return ok("site clock", f"this machine's clock is {abs(skew_s):.0f} s {direction} it; nothing depends on that")


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """The range of wire versions that a site speaks, from its first message on the control connection.

    Attributes:
        problem: why no such message came, for people; empty if it came.
    """

    problem: str = ""
    version_min: int = 0
    version_max: int = 0


def judge_control(facts: ControlFacts) -> Finding:
    """Judge whether this node and the site have a wire version in common."""
    if facts.problem:
        advice = "let WebSocket connections through to the site (a proxy or firewall may block them)"
        return failed("control", facts.problem, advice)
    theirs = f"{facts.version_min} to {facts.version_max}"
    if facts.version_max < WIRE_VERSION_MIN:
        return failed(
            "control",
            f"the site speaks wire versions {theirs}, older than ours",
            "ask the site's administrator to update it",
        )
    if facts.version_min > WIRE_VERSION:
        return failed(
            "control", f"the site speaks wire versions {theirs}, newer than ours", "update Meshnet on this machine"
        )
    common = min(facts.version_max, WIRE_VERSION)
    return ok("control", f"the site's control connection answers, wire version {common}")
