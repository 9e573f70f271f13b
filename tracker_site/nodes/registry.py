"""What can be served right now.

Invariant: an offer is of a node whose lease runs, whose control connection stands, that is serving, not blocked and
owned by an active user. It is a snapshot: the node has the last word when the stage is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils import timezone

from meshnet.frame import Codec
from tracker_site.nodes.models import LoadedShard, Node

if TYPE_CHECKING:
    from django.db.models import QuerySet


@dataclass(frozen=True, slots=True)
class ShardOffer:
    """One loaded shard that may become a stage.

    Attributes:
        node_id: the UUID as text, as `control_plane.control.open_stage` takes it.
        owner_id: primary key of the user who earns.
        node_public_key: Ed25519, 32 bytes; tickets name it.
        exact_class: serialised `ExactClass`; equal bytes mean equal classes. Empty where the node gave none.
        seam_bytes_per_row: raw bytes of all output tensors of one row; 0 on the tail.
        codecs: how it can pack rows between stages beside raw.
        recipe: engine and arithmetic; empty where the node gave none.
        decode_ms_per_layer: one row, as the node measured it.
        prefill_ms_per_layer: one row of a full chunk.
        tail_ms: output norm and head, one row; 0 where not owned.
        link_address: host:port where peers may dial; empty where none may.
        link_fingerprint: SHA-256 of the worker's certificate; empty where it has none.
        carrier: "auto", "direct" or "relay".
        latency_ms: one way to the relay; None where not measured.
        upload_bytes_per_s: that the node's line takes in, by its owner's word; 0 where not said.
        data_connected: the node's data connection to the relay stands.
    """

    node_id: str
    node_name: str
    owner_id: int
    node_public_key: bytes
    artifact_digest: bytes
    architecture: str
    layer_begin: int
    layer_end: int
    n_layers: int
    contract_digest: bytes
    exact_class: bytes
    context_length: int
    vocab_size: int
    needs_token_ids: bool
    seam_bytes_per_row: int
    codecs: frozenset[Codec]
    recipe: str
    decode_ms_per_layer: float
    prefill_ms_per_layer: float
    tail_ms: float
    kv_cells_total: int
    kv_cells_free: int
    max_sessions: int
    sessions: int
    link_address: str
    link_fingerprint: bytes
    carrier: str
    latency_ms: float | None
    upload_bytes_per_s: int
    data_connected: bool


def live_shards(artifact_digest: bytes) -> list[ShardOffer]:
    """Every shard of an artifact (32-byte digest) that could serve now, in layer order."""
    rows = _present_shards().filter(artifact_digest=artifact_digest.hex())
    return [_offer(row) for row in rows.order_by("layer_begin", "layer_end", "node_id")]


def _present_shards() -> QuerySet[LoadedShard]:
    present = LoadedShard.objects.filter(
        node__state=Node.State.SERVING,
        node__lease_expires_at__gt=timezone.now(),
        node__is_blocked=False,
        node__owner__is_active=True,
    )
    return present.exclude(node__channel_name="").select_related("node")


def _offer(row: LoadedShard) -> ShardOffer:
    node = row.node
    return ShardOffer(
        node_id=str(node.pk),
        node_name=node.name,
        owner_id=node.owner_id,
        node_public_key=bytes.fromhex(node.public_key),
        artifact_digest=bytes.fromhex(row.artifact_digest),
        architecture=row.architecture,
        layer_begin=row.layer_begin,
        layer_end=row.layer_end,
        n_layers=row.n_layers,
        contract_digest=bytes.fromhex(row.contract_digest),
        exact_class=bytes(row.exact_class),
        context_length=row.context_length,
        vocab_size=row.vocab_size,
        needs_token_ids=row.needs_token_ids,
        seam_bytes_per_row=row.seam_bytes_per_row,
        codecs=frozenset(Codec[label.upper()] for label in row.codecs.split(",") if label),
        recipe=row.recipe,
        decode_ms_per_layer=row.decode_ms_per_layer,
        prefill_ms_per_layer=row.prefill_ms_per_layer,
        tail_ms=row.tail_ms,
        kv_cells_total=row.kv_cells_total,
        kv_cells_free=row.kv_cells_free,
        max_sessions=row.max_sessions,
        sessions=row.sessions,
        link_address=node.link_address,
        link_fingerprint=bytes.fromhex(node.link_fingerprint),
        carrier=node.carrier,
        latency_ms=node.latency_ms,
        upload_bytes_per_s=node.upload_bytes_per_s,
        data_connected=node.data_connected,
    )
