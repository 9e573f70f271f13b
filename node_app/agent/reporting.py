"""Builds the node's reports to its site.

Invariant: pure; the speeds in a report are measured, and no option of the volunteer changes them.
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
    """The loaded shard and its measured speed.

    Attributes:
        artifact_digest: SHA-256 over the digests of the model's files.
        limits: the threads, KV cells and sessions with which it was loaded.
        tracker: keeps the measured speed up to date.
    """

    artifact_digest: bytes
    contract: session_pb2.BoundaryContract
    limits: WorkerLimits
    tracker: SpeedTracker


@dataclass(frozen=True, slots=True)
class PeerListener:
    """How other nodes' workers reach this node's worker.

    Attributes:
        address: `host:port` at which they dial it; empty if it does not listen.
        fingerprint: SHA-256 of its certificate.
    """

    address: str = ""
    fingerprint: bytes = b""


def build_report(
    state: AgentState,
    shard: MeasuredShard | None,
    status: worker_pb2.StatusReply | None,
    reach: NodeReach,
) -> control_pb2.NodeReport:
    """Return a report of the node; it lists the shard only if the node offers it (`is_offered`).

    Args:
        state: the agent's present state.
        shard: the loaded shard; None until it is measured.
        status: the worker's newest status; None until there is one.
        reach: how other nodes and the relay reach this node.
    """
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
    """Return why the worker or its self test keeps the node from serving, for people; empty if neither does."""
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
