"""Presence in the database: the nodes that are connected, the shards that they have loaded, and their leases.

Invariants: every change is one transaction. It takes effect only if the connection that makes it is still the node's
current one, so a replaced connection cannot overwrite its successor. Only the site's clock is used.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from meshnet.shard_facts import NodeState
from tracker_site.nodes.models import REASON_CHARACTERS, LoadedShard, Node
from tracker_site.nodes.shard_problems import note_problems, note_problems_of, notice_for

if TYPE_CHECKING:
    from tracker_site.nodes.notices import Notice
    from tracker_site.nodes.reports import Report

IDENTITY_FIELDS = ("node", "artifact_digest", "layer_begin", "layer_end")


class NodeUnknownError(LookupError):
    """The key is not enrolled, or the owner of its node is inactive."""


class NodeBlockedError(LookupError):
    """An administrator has blocked the node."""


@transaction.atomic
def connect(public_key: bytes, channel_name: str, software_version: str) -> tuple[Node, str]:
    """Note a connection, over which a node has proven its key, as that node's current one.

    Returns:
        The node, and the channel of the connection that is replaced ("" if there is none).

    Raises:
        NodeUnknownError: if the key is not enrolled, or its owner is inactive.
        NodeBlockedError: if the node is blocked.
    """
    node = _lock(public_key=public_key.hex())
    if node is None or not node.owner.is_active:
        raise NodeUnknownError(public_key.hex())
    if node.is_blocked:
        raise NodeBlockedError(node.name)
    replaced = node.channel_name
    now = timezone.now()
    node.channel_name = channel_name
    node.software_version = software_version
    node.state, node.reason = NodeState.LOADING, "connected; no report yet"
    node.last_seen_at, node.lease_expires_at = now, now + _lease()
    node.data_connected = False
    node.save(
        update_fields=[
            "channel_name", "software_version", "state", "reason", "last_seen_at", "lease_expires_at", "data_connected",
        ]
    )  # fmt: skip
    return node, replaced


@transaction.atomic
def record_report(node_id: str, channel_name: str, report: Report, *, is_same_shards: bool) -> Notice | None:
    """Store a report and extend the lease.

    Args:
        node_id: the node's UUID as text.
        channel_name: the channel of the connection that brought the report.
        report: the checked report.
        is_same_shards: whether the report lists the same shards as this connection's last stored report.

    Returns:
        The notice for the node, which is empty if nothing is wrong; None if the connection is no longer the node's
        current one, and nothing was stored.
    """
    if not _store_state(node_id, channel_name, report):
        return None
    if not is_same_shards:
        _drop_other_shards(node_id, report)
    _store_shards(node_id, report)
    notice = notice_for(node_id)
    # A problem may have been mended since, in the catalogue or at other nodes.
    if notice.code or not is_same_shards:
        for digest in {identity.artifact_digest for identity in report.identities}:
            note_problems(digest.hex())
        notice = notice_for(node_id)
    return notice


@transaction.atomic
def disconnect(node_id: str, channel_name: str, reason: str) -> bool:
    """Mark a node as offline; if another connection is its current one, change nothing and return False."""
    current = Node.objects.filter(pk=node_id, channel_name=channel_name)
    changed = current.update(
        state=Node.OFFLINE,
        reason=reason[:REASON_CHARACTERS],
        channel_name="",
        data_connected=False,
        last_seen_at=timezone.now(),
    )
    if changed:
        note_problems_of([node_id])
    return bool(changed)


@transaction.atomic
def expire_leases() -> int:
    """Mark the nodes whose lease has expired as offline; return their number.

    Such a node fell silent, or its connection was in a process of the site that crashed.
    """
    overdue = Node.objects.filter(lease_expires_at__lte=timezone.now()).exclude(state=Node.OFFLINE)
    node_ids = [str(node_id) for node_id in overdue.values_list("pk", flat=True)]
    changed = overdue.update(
        state=Node.OFFLINE, reason="no report within the lease", channel_name="", data_connected=False
    )
    note_problems_of(node_ids)
    return changed


def note_unusable(public_key: bytes, software_version: str, reason: str) -> bool:
    """Store why an enrolled node was refused; return False if the key is not enrolled or its node is connected."""
    absent = Node.objects.filter(public_key=public_key.hex(), channel_name="")
    changed = absent.update(
        software_version=software_version, reason=reason[:REASON_CHARACTERS], last_seen_at=timezone.now()
    )
    return bool(changed)


def forget_connections() -> int:
    """Mark all nodes that are stored as connected as offline; return their number.

    Call it only at the start of a site that is a single process, because then no connection can exist yet.
    """
    connected = Node.objects.exclude(channel_name="")
    return connected.update(state=Node.OFFLINE, reason="the site was restarted", channel_name="", data_connected=False)


def current_channel(node_id: str) -> str:
    """Return the channel of the node's control connection; "" if the node has none or its lease has expired."""
    present = Node.objects.filter(pk=node_id, lease_expires_at__gt=timezone.now())
    return present.values_list("channel_name", flat=True).first() or ""


def _lease() -> timedelta:
    return timedelta(milliseconds=settings.CONTROL_LEASE_MS)


def _lock(public_key: str) -> Node | None:
    return Node.objects.select_for_update(of=("self",)).select_related("owner").filter(public_key=public_key).first()


def _store_state(node_id: str, channel_name: str, report: Report) -> bool:
    """Store a report's facts of the node itself and extend its lease; return False if its connection was replaced."""
    now, reach = timezone.now(), report.reach
    changed = Node.objects.filter(pk=node_id, channel_name=channel_name).update(
        state=report.state,
        reason=report.reason[:REASON_CHARACTERS],
        link_address=reach.link_address,
        link_fingerprint=reach.link_fingerprint.hex(),
        carrier=reach.carrier,
        data_connected=reach.data_connected,
        latency_ms=reach.latency_ms,
        upload_bytes_per_s=reach.upload_bytes_per_s,
        last_seen_at=now,
        lease_expires_at=now + _lease(),
    )
    return bool(changed)


def _drop_other_shards(node_id: str, report: Report) -> None:
    keep = {
        (identity.artifact_digest.hex(), identity.layer_begin, identity.layer_end) for identity in report.identities
    }
    for shard in LoadedShard.objects.filter(node_id=node_id):
        if (shard.artifact_digest, shard.layer_begin, shard.layer_end) not in keep:
            shard.delete()


def _store_shards(node_id: str, report: Report) -> None:
    LoadedShard.objects.bulk_create(
        [LoadedShard.of(node_id, identity, figures) for identity, figures in report.shards],
        update_conflicts=True,
        unique_fields=IDENTITY_FIELDS,
        update_fields=_updated_fields(),
    )


def _updated_fields() -> list[str]:
    kept = {*IDENTITY_FIELDS, "id", "first_seen_at", "problem_code", "problem"}
    return [field.name for field in LoadedShard._meta.concrete_fields if field.name not in kept]  # noqa: SLF001
