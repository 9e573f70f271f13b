"""Access of routes to nodes: reads the nodes' offers, and opens and closes stages on nodes.

Invariant: this module decides nothing. No other module of `routes` reads the register of nodes.
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
    """The operations on nodes that routes need."""

    async def offers(self, artifact_digest: bytes) -> list[Offer]:
        """Return an offer for every live shard of the model whose files have this SHA-256 digest."""

    async def open_stage(
        self, node_id: str, request: control_pb2.OpenStage, reply_channel: str, timeout_s: float
    ) -> control_pb2.StageOpened:
        """Open a stage on a node and return the node's answer. If the call is cancelled, the stage is closed again.

        Raises:
            RouteError: if the node refuses or does not answer within `timeout_s`.
        """

    async def close_stage(self, node_id: str, key: SessionKey, reason: str) -> None:
        """Close a session's stage on a node. Idempotent."""

    async def new_reply_channel(self) -> str:
        """Return the name of a new channel on which news of open stages arrives."""

    async def receive_news(self, reply_channel: str) -> StageNews:
        """Wait for the next news on this channel and return it."""


class ControlledNodes:
    """Implements `NodeAccess` with the register of nodes and the nodes' control connections."""

    async def offers(self, artifact_digest: bytes) -> list[Offer]:
        """Read the live shards of a model from the database and return an offer for each."""
        return await database.read(_live_offers, artifact_digest)

    async def open_stage(
        self, node_id: str, request: control_pb2.OpenStage, reply_channel: str, timeout_s: float
    ) -> control_pb2.StageOpened:
        """Open a stage over the node's control connection and return the node's answer."""
        return await control.open_stage(node_id, request, reply_channel=reply_channel, timeout_s=timeout_s)

    async def close_stage(self, node_id: str, key: SessionKey, reason: str) -> None:
        """Close a session's stage over the node's control connection."""
        await control.close_stage(node_id, key.session, key.epoch, reason)

    async def new_reply_channel(self) -> str:
        """Return the name of a new channel of this process for news of open stages."""
        return await control.new_reply_channel()

    async def receive_news(self, reply_channel: str) -> StageNews:
        """Wait for the next news on this channel and return it."""
        return await control.receive_news(reply_channel)


def _live_offers(artifact_digest: bytes) -> list[Offer]:
    """Read the live shards and build their offers; runs on a database thread, so the event loop is not blocked."""
    return [read_offer(row) for row in registry.live_shards(artifact_digest)]


def read_offer(row: LoadedShard) -> Offer:
    """Return the offer of a registered shard, with which the planner works."""
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
