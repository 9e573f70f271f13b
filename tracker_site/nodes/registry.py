"""What can be served right now.

Invariant: a live shard is of a node whose lease runs, whose control connection stands, that is serving, not blocked and
owned by an active user. It is a snapshot: the node has the last word when the stage is opened.
"""

from __future__ import annotations

from django.utils import timezone

from meshnet.shard_facts import NodeState
from tracker_site.nodes.models import LoadedShard


def live_shards(artifact_digest: bytes) -> list[LoadedShard]:
    """Return every shard of an artifact (32-byte digest) that could serve now, in layer order, with its node."""
    present = LoadedShard.objects.filter(
        artifact_digest=artifact_digest.hex(),
        node__state=NodeState.SERVING,
        node__lease_expires_at__gt=timezone.now(),
        node__is_blocked=False,
        node__owner__is_active=True,
    )
    connected = present.exclude(node__channel_name="").select_related("node")
    return list(connected.order_by("layer_begin", "layer_end", "node_id"))
