"""What the site is told of how the node is reached."""

from __future__ import annotations

from meshnet.shard_facts import Carrier, NodeReach
from node_app.agent.reporting import build_report
from node_app.agent.state import AgentState


def test_what_was_measured_and_said_of_the_line_is_told() -> None:
    reach = NodeReach(Carrier.DIRECT, "h:1", b"f" * 32, latency_ms=12.5, upload_bytes_per_s=5_000_000)
    report = build_report(AgentState(), None, None, reach)
    assert (report.carrier, report.latency_ms, report.upload_bytes_per_s) == ("direct", 12.5, 5_000_000)
    assert (report.link_address, report.link_fingerprint, report.data_connected) == ("h:1", b"f" * 32, False)


def test_what_is_not_known_of_it_is_left_out() -> None:
    report = build_report(AgentState(), None, None, NodeReach())
    assert not report.HasField("latency_ms")
    assert report.upload_bytes_per_s == 0
