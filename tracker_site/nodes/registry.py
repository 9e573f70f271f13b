"""The live shards: those that routes can use now.

Invariants: a shard is live if its node is serving, is not blocked, has a control connection and an unexpired lease, and
belongs to an active user. The answer is a snapshot; a node may still refuse when a stage is opened.
"""

from __future__ import annotations

from django.utils import timezone

from meshnet.shard_facts import NodeState
from tracker_site.nodes.models import LoadedShard


def live_shards(artifact_digest: bytes) -> list[LoadedShard]:
    """Return the live shards of an artifact (32-byte digest) in layer order, each with its node."""
    present = LoadedShard.objects.filter(
        artifact_digest=artifact_digest.hex(),
        node__state=NodeState.SERVING,
        node__lease_expires_at__gt=timezone.now(),
        node__is_blocked=False,
        node__owner__is_active=True,
    )
    connected = present.exclude(node__channel_name="").select_related("node")
    return list(connected.order_by("layer_begin", "layer_end", "node_id"))
