"""Builds the node's reports to its site.

Invariant: pure; a shard's figures come from the worker and from measurements, never from the volunteer's options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.shard_facts import STATE_MESSAGES
from meshnet.v1 import control_pb2
from node_app.agent.events import SelfTest
from node_app.agent.plan import condition, is_offered

if TYPE_CHECKING:
    from meshnet.shard_facts import NodeReach
    from meshnet.v1 import session_pb2, worker_pb2
    from node_app.agent.state import AgentState
    from node_app.worker.limits import WorkerLimits
    from node_app.worker.measure import SpeedTracker

REASON_LENGTH_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class MeasuredShard:
    """The shard that is loaded, and how fast it is."""

    artifact_digest: bytes
    contract: session_pb2.BoundaryContract
    limits: WorkerLimits
    tracker: SpeedTracker


@dataclass(frozen=True, slots=True)
class PeerListener:
    """The address on which other workers dial this one; empty if it does not listen."""

    address: str = ""
    fingerprint: bytes = b""


def build_report(
    state: AgentState,
    shard: MeasuredShard | None,
    status: worker_pb2.StatusReply | None,
    reach: NodeReach,
) -> control_pb2.NodeReport:
    """Return a report of the present state; it lists the shard only if `is_offered`."""
    is_serving = is_offered(state) and shard is not None
    return control_pb2.NodeReport(
        state=STATE_MESSAGES[condition(state)],
        shards=[_shard_report(shard, status)] if is_serving and shard is not None else [],
        reason=why_not(state)[:REASON_LENGTH_MAX],
        link_address=reach.link_address,
        link_fingerprint=reach.link_fingerprint,
        carrier=reach.carrier.value,
        data_connected=reach.data_connected,
        report_id=state.revision,
        latency_ms=reach.latency_ms,
        upload_bytes_per_s=reach.upload_bytes_per_s,
    )


def why_not(state: AgentState) -> str:
    """Return why the node does not serve, for people; empty if it does."""
    worker = state.worker
    if worker.reason or worker.self_test not in {SelfTest.PUT_OFF, SelfTest.FAILED}:
        return worker.reason
    return worker.self_test_words


def _shard_report(shard: MeasuredShard, status: worker_pb2.StatusReply | None) -> control_pb2.ShardReport:
    cells_total = status.kv_cells_total if status is not None else shard.limits.kv_cells
    cells_reserved = status.kv_cells_reserved if status is not None else 0
    speed = shard.tracker.speed
    return control_pb2.ShardReport(
        artifact_digest=shard.artifact_digest,
        contract=shard.contract,
        decode_ms_per_layer=speed.decode_ms_per_layer,
        prefill_ms_per_layer=speed.prefill_ms_per_layer,
        tail_ms=speed.tail_ms,
        kv_cells_total=cells_total,
        kv_cells_free=max(0, cells_total - cells_reserved),
        max_sessions=shard.limits.max_sessions,
        sessions=len(status.sessions) if status is not None else 0,
    )
