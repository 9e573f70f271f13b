"""What the site is told of this node, built from what is known at the moment.

Invariant: pure; figures are the worker's own and the node's measurements, never the options of the volunteer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.v1 import control_pb2
from node_app.agent.events import SelfTest
from node_app.agent.plan import NodeCondition, condition, is_offered

if TYPE_CHECKING:
    from meshnet.v1 import session_pb2, worker_pb2
    from node_app.agent.state import AgentState
    from node_app.settings import Carrier
    from node_app.worker.limits import WorkerLimits
    from node_app.worker.measure import SpeedTracker

REASON_LENGTH_MAX: Final = 300

_STATES: Final = {
    NodeCondition.LOADING: control_pb2.NodeReport.STATE_LOADING,
    NodeCondition.SERVING: control_pb2.NodeReport.STATE_SERVING,
    NodeCondition.PAUSED: control_pb2.NodeReport.STATE_PAUSED,
    NodeCondition.DEGRADED: control_pb2.NodeReport.STATE_DEGRADED,
    NodeCondition.SELF_TEST_FAILED: control_pb2.NodeReport.STATE_SELF_TEST_FAILED,
}


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """The shard that is loaded, and how fast it is."""

    artifact_digest: bytes
    contract: session_pb2.BoundaryContract
    limits: WorkerLimits
    tracker: SpeedTracker


@dataclass(frozen=True, slots=True)
class PeerListener:
    """Where other workers may dial this one; empty: nowhere."""

    address: str = ""
    fingerprint: bytes = b""


@dataclass(frozen=True, slots=True)
class NodeLine:
    """What others reach this node by.

    Attributes:
        carrier: that the volunteer allows.
        latency_ms: one way to the relay; None: not measured yet.
        upload_bytes_per_s: by the volunteer's word; 0: not said.
    """

    carrier: Carrier
    latency_ms: float | None = None
    upload_bytes_per_s: int = 0


def build_report(
    state: AgentState,
    shard: ShardFacts | None,
    status: worker_pb2.StatusReply | None,
    peers: PeerListener,
    line: NodeLine,
) -> control_pb2.NodeReport:
    """Return the report of this moment; shards are listed only while the worker serves, and only proven ones."""
    is_serving = is_offered(state) and shard is not None
    return control_pb2.NodeReport(
        state=_STATES[condition(state)],
        shards=[_shard_report(shard, status)] if is_serving and shard is not None else [],
        reason=why_not(state)[:REASON_LENGTH_MAX],
        link_address=peers.address,
        link_fingerprint=peers.fingerprint,
        carrier=line.carrier.value,
        data_connected=state.is_data_connected,
        report_id=state.revision,
        latency_ms=line.latency_ms,
        upload_bytes_per_s=line.upload_bytes_per_s,
    )


def why_not(state: AgentState) -> str:
    """Why the node does not serve, for people; empty while it does."""
    worker = state.worker
    if worker.reason or worker.self_test not in {SelfTest.PUT_OFF, SelfTest.FAILED}:
        return worker.reason
    return worker.self_test_words


def _shard_report(shard: ShardFacts, status: worker_pb2.StatusReply | None) -> control_pb2.ShardReport:
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
