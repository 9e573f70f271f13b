"""Access of routes to nodes: reads their offers, and opens and closes stages on them.

Invariant: decides nothing. Routes read the register of nodes only here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tracker_site import database
from tracker_site.control_plane import control
from tracker_site.nodes import registry
from tracker_site.routes.planning.offers import Offer

if TYPE_CHECKING:
    from meshnet.ids import SessionKey
    from meshnet.v1 import control_pb2
    from tracker_site.control_plane.control import StageNews
    from tracker_site.nodes.models import LoadedShard


class NodeAccess(Protocol):
    """Interface to the nodes that a route's driver needs."""

    async def offers(self, artifact_digest: bytes) -> list[Offer]:
        """Return every live shard of an artifact (32-byte digest)."""

    async def open_stage(
        self, node_id: str, request: control_pb2.OpenStage, reply_channel: str, timeout_s: float
    ) -> control_pb2.StageOpened:
        """Open a stage. If the call is cancelled, the stage is closed again.

        Raises:
            RouteError: if the node refuses or does not answer within `timeout_s`.
        """

    async def close_stage(self, node_id: str, key: SessionKey, reason: str) -> None:
        """Close a session on a node. Idempotent."""

    async def new_reply_channel(self) -> str:
        """Return a new channel for news of open stages."""

    async def receive_news(self, reply_channel: str) -> StageNews:
        """Wait for the next news."""


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
    """Read rows and build offers; on the database's thread, since ten thousand nodes would block the loop."""
    return [read_offer(row) for row in registry.live_shards(artifact_digest)]


def read_offer(row: LoadedShard) -> Offer:
    """Return a registered shard as the planner sees it."""
    node = row.node
    return Offer(
        node_id=str(node.pk),
        reach=node.reach,
        shard=row.identity,
        figures=row.figures,
        public_key=bytes.fromhex(node.public_key),
        node_name=node.name,
        owner_id=node.owner_id,
    )
