"""A node of the register that serves, as if it had connected and reported."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from tests.site import wire
from tracker_site.nodes import presence
from tracker_site.nodes.models import Node
from tracker_site.nodes.reports import parse_report

if TYPE_CHECKING:
    from meshnet.v1 import control_pb2

KEY = b"\x01" * 32


def serve(key: bytes, channel: str, *shards: control_pb2.ShardReport, is_same: bool = False) -> Node:
    node, _ = presence.connect(key, channel, "1.0")
    assert presence.record_report(str(node.pk), channel, parse_report(wire.report(*shards)), is_same_shards=is_same)
    return node


def expire(node: Node) -> None:
    Node.objects.filter(pk=node.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
