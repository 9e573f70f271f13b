"""Nodes that hold the same artifact but would not compute the same: found, and said where people look.

Invariant: this judges nothing, it explains. Which shards may share a route is the planner's business, and every stage
compares contracts again when it is opened. Source: docs/wire.md, What must match.
"""

from __future__ import annotations

from collections import defaultdict

from django.utils import timezone

from tracker_site.nodes.models import LoadedShard


def note_mismatches(artifact_digest: str) -> int:
    """Write a reason at every present shard whose contract differs from the prevailing one; returns how many differ.

    The prevailing contract is the one that most present nodes have; of equals, the one seen first.
    """
    shards = list(_present_shards(artifact_digest))
    groups: defaultdict[str, list[LoadedShard]] = defaultdict(list)
    for shard in shards:
        groups[shard.contract_digest].append(shard)
    if not groups:
        return 0
    prevailing = max(groups.values(), key=_weight)
    for shard in shards:
        _set_reason(shard, "" if shard in prevailing else _reason(shard, prevailing))
    return len(shards) - len(prevailing)


def _present_shards(artifact_digest: str) -> list[LoadedShard]:
    now = timezone.now()
    present = LoadedShard.objects.filter(artifact_digest=artifact_digest, node__lease_expires_at__gt=now)
    return list(present.exclude(node__channel_name="").order_by("first_seen_at", "pk"))


def _weight(shards: list[LoadedShard]) -> tuple[int, float]:
    return len({shard.node_id for shard in shards}), -shards[0].first_seen_at.timestamp()


def _reason(shard: LoadedShard, prevailing: list[LoadedShard]) -> str:
    other = prevailing[0]
    others = len({one.node_id for one in prevailing})
    reason = (
        f"contract {shard.contract_digest[:12]} differs from {other.contract_digest[:12]} of {others} other node(s); "
        "it cannot share a route with them"
    )
    if shard.context_length != other.context_length:
        reason += f" (context {shard.context_length}, theirs {other.context_length})"
    return reason


def _set_reason(shard: LoadedShard, reason: str) -> None:
    if shard.mismatch_reason != reason:
        LoadedShard.objects.filter(pk=shard.pk).update(mismatch_reason=reason)
