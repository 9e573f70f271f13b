"""Presence in the database: who is connected, with what loaded, until when.

Invariants: every change is one transaction and is conditional on the connection that makes it still being the node's
current one, so that a replaced connection cannot overwrite its successor; time is the site's clock alone.
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
    """No enrolled node of an active user has the key."""


class NodeBlockedError(LookupError):
    """An administrator has blocked the node."""


@transaction.atomic
def connect(public_key: bytes, channel_name: str, software_version: str) -> tuple[Node, str]:
    """Make a proven connection the node's current one.

    Returns:
        The node, and the channel of the connection it replaces ("" where there was none).

    Raises:
        NodeUnknownError: nobody enrolled the key, or its owner is inactive.
        NodeBlockedError: it may not connect.
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
        node_id: the node.
        channel_name: of the connection that brought the report.
        report: what it said.
        is_same_shards: the identities equal those of this connection's last stored report.

    Returns:
        What the node should be told, the empty notice where all is well; None when the connection is no longer the
        node's: then nothing changed.
    """
    if not _store_state(node_id, channel_name, report):
        return None
    if not is_same_shards:
        _drop_other_shards(node_id, report)
    _store_shards(node_id, report)
    notice = notice_for(node_id)
    # What was wrong may have been mended since, in the catalogue or at other nodes.
    if notice.code or not is_same_shards:
        for digest in {identity.artifact_digest for identity in report.identities}:
            note_problems(digest.hex())
        notice = notice_for(node_id)
    return notice


@transaction.atomic
def disconnect(node_id: str, channel_name: str, reason: str) -> bool:
    """The node's current connection is gone; False when another took its place already."""
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
    """Mark nodes whose lease ran out as gone, which a crashed process could not do; returns how many."""
    overdue = Node.objects.filter(lease_expires_at__lte=timezone.now()).exclude(state=Node.OFFLINE)
    node_ids = [str(node_id) for node_id in overdue.values_list("pk", flat=True)]
    changed = overdue.update(
        state=Node.OFFLINE, reason="no report within the lease", channel_name="", data_connected=False
    )
    note_problems_of(node_ids)
    return changed


def note_unusable(public_key: bytes, software_version: str, reason: str) -> bool:
    """Say at an enrolled node that is not connected why it was turned away; False where there is none."""
    absent = Node.objects.filter(public_key=public_key.hex(), channel_name="")
    changed = absent.update(
        software_version=software_version, reason=reason[:REASON_CHARACTERS], last_seen_at=timezone.now()
    )
    return bool(changed)


def forget_connections() -> int:
    """At the start of a site of one process: no connection of an earlier run can stand."""
    connected = Node.objects.exclude(channel_name="")
    return connected.update(state=Node.OFFLINE, reason="the site was restarted", channel_name="", data_connected=False)


def current_channel(node_id: str) -> str:
    """The channel of the node's connection; "" while it is absent or its lease has run out."""
    present = Node.objects.filter(pk=node_id, lease_expires_at__gt=timezone.now())
    return present.values_list("channel_name", flat=True).first() or ""


def _lease() -> timedelta:
    return timedelta(milliseconds=settings.CONTROL_LEASE_MS)


def _lock(public_key: str) -> Node | None:
    return Node.objects.select_for_update(of=("self",)).select_related("owner").filter(public_key=public_key).first()


def _store_state(node_id: str, channel_name: str, report: Report) -> bool:
    """Store what a report says of the node and extend its lease; False where the connection is no longer the node's."""
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
