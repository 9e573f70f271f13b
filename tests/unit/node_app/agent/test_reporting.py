"""What the site is told of the node's line."""

from __future__ import annotations

from node_app.agent.reporting import NodeLine, PeerListener, build_report
from node_app.agent.state import AgentState
from node_app.settings import Carrier


def test_what_was_measured_and_said_of_the_line_is_told() -> None:
    line = NodeLine(Carrier.DIRECT, 12.5, 5_000_000)
    report = build_report(AgentState(), None, None, PeerListener("h:1", b"f" * 32), line)
    assert (report.carrier, report.latency_ms, report.upload_bytes_per_s) == ("direct", 12.5, 5_000_000)


def test_what_is_not_known_of_it_is_left_out() -> None:
    report = build_report(AgentState(), None, None, PeerListener(), NodeLine(Carrier.AUTO))
    assert not report.HasField("latency_ms")
    assert report.upload_bytes_per_s == 0
