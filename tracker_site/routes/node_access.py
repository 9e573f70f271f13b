"""How routes reach nodes: what they offer, and opening and closing stages on them.

Invariant: the only module of routes that knows `tracker_site.nodes`; it decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tracker_site import database
from tracker_site.control_plane import control
from tracker_site.nodes import registry
from tracker_site.routes.planning.offers import DEFAULT_LATENCY_MS, CarrierPolicy, Offer

if TYPE_CHECKING:
    from meshnet.ids import SessionKey
    from meshnet.v1 import control_pb2
    from tracker_site.control_plane.control import StageNews


class NodeAccess(Protocol):
    """What a route's driver needs of the nodes."""

    async def offers(self, artifact_digest: bytes) -> list[Offer]:
        """Every live shard of an artifact."""

    async def open_stage(
        self, node_id: str, request: control_pb2.OpenStage, reply_channel: str, timeout_s: float
    ) -> control_pb2.StageOpened:
        """Raises `RouteError`; when cancelled, the stage is closed again."""

    async def close_stage(self, node_id: str, key: SessionKey, reason: str) -> None:
        """Idempotent."""

    async def new_reply_channel(self) -> str:
        """Where news of opened stages go."""

    async def receive_news(self, reply_channel: str) -> StageNews:
        """The next news."""


class ControlledNodes:
    """The nodes behind the site's control connections."""

    async def offers(self, artifact_digest: bytes) -> list[Offer]:
        """See `NodeAccess`."""
        return await database.read(_live_offers, artifact_digest)

    async def open_stage(
        self, node_id: str, request: control_pb2.OpenStage, reply_channel: str, timeout_s: float
    ) -> control_pb2.StageOpened:
        """See `NodeAccess`."""
        return await control.open_stage(node_id, request, reply_channel=reply_channel, timeout_s=timeout_s)

    async def close_stage(self, node_id: str, key: SessionKey, reason: str) -> None:
        """See `NodeAccess`."""
        await control.close_stage(node_id, key.session, key.epoch, reason)

    async def new_reply_channel(self) -> str:
        """See `NodeAccess`."""
        return await control.new_reply_channel()

    async def receive_news(self, reply_channel: str) -> StageNews:
        """See `NodeAccess`."""
        return await control.receive_news(reply_channel)


def _live_offers(artifact_digest: bytes) -> list[Offer]:
    """Read and translated on the database's thread: of ten thousand nodes either would hold the loop up."""
    return [read_offer(shard) for shard in registry.live_shards(artifact_digest)]


def read_offer(shard: registry.ShardOffer) -> Offer:
    """The planner's view of a registered shard."""
    return Offer(
        node_id=shard.node_id,
        layer_begin=shard.layer_begin,
        layer_end=shard.layer_end,
        n_layers=shard.n_layers,
        contract_digest=shard.contract_digest,
        exact_class=shard.exact_class,
        decode_ms_per_layer=shard.decode_ms_per_layer,
        prefill_ms_per_layer=shard.prefill_ms_per_layer,
        tail_ms=shard.tail_ms,
        kv_cells_free=shard.kv_cells_free,
        sessions_free=shard.max_sessions - shard.sessions,
        sessions=shard.sessions,
        carrier=CarrierPolicy(shard.carrier),
        link_address=shard.link_address,
        link_fingerprint=shard.link_fingerprint,
        # A worker without a certificate has nothing that a peer could know it by.
        has_link=bool(shard.link_fingerprint),
        latency_ms=DEFAULT_LATENCY_MS if shard.latency_ms is None else shard.latency_ms,
        upload_bytes_per_s=shard.upload_bytes_per_s,
        context_length=shard.context_length,
        seam_bytes_per_row=shard.seam_bytes_per_row,
        has_data_link=shard.data_connected,
        codecs=shard.codecs,
        recipe=shard.recipe,
        public_key=shard.node_public_key,
        node_name=shard.node_name,
        owner_id=shard.owner_id,
    )
