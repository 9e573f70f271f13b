"""Admin pages of nodes: their presence, their shards, and the reasons for which routes do not use them.

This module lies in this package, because blocking a node drops its control connection.

Invariant: facts that a node reports are read-only; an administrator renames, blocks, unblocks and deletes nodes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import Prefetch
from django.utils import timezone
from django.utils.timesince import timesince

from tracker_site.control_plane.control import drop_connection
from tracker_site.nodes.models import LoadedShard, Node
from tracker_site.nodes.refusals import BLOCKED_MESSAGE, ControlRefusalCode
from tracker_site.nodes.shard_admin import LoadedShardInline, named_shards, problem_label, short_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest

JUST_NOW = timedelta(minutes=1)


@admin.register(Node)
class NodeAdmin(admin.ModelAdmin):
    """The admin list of nodes, and the page of each node."""

    list_display = ("name", "owner", "presence", "why", "last_seen", "serves", "sessions", "carrier", "data_connected")
    list_filter = ("state", "is_blocked", ("shards__problem_code", admin.EmptyFieldListFilter), "carrier")
    list_select_related = ("owner",)
    search_fields = ("name", "owner__username", "public_key")
    fields = (
        "name", "owner", "is_blocked", "presence", "reason", "problem", "last_seen_at", "lease_expires_at",
        "enrolled_at", "public_key", "software_version", "carrier", "data_connected", "latency_ms",
        "upload_bytes_per_s", "link_address", "link_fingerprint",
    )  # fmt: skip
    readonly_fields = tuple(name for name in fields if name not in {"name", "is_blocked"})
    inlines = (LoadedShardInline,)
    actions = ("block", "unblock")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Node]:
        """Return all nodes; one further query reads their shards, which columns of the list show."""
        return Node.objects.prefetch_related(Prefetch("shards", queryset=named_shards()))

    @admin.display(description="state", ordering="state")
    def presence(self, node: Node) -> str:
        """Return "blocked", "offline" if the node has no connection or no valid lease, or else its stored state."""
        if node.is_blocked:
            return "blocked"
        return node.get_state_display() if node.is_present(timezone.now()) else "offline"

    @admin.display(description="last seen", ordering="last_seen_at")
    def last_seen(self, node: Node) -> str:
        """Return how long ago the node was last seen, in words."""
        if node.last_seen_at is None:
            return "never"
        is_just_now = timezone.now() - node.last_seen_at < JUST_NOW
        return "just now" if is_just_now else f"{timesince(node.last_seen_at, depth=1)} ago"

    @admin.display(description="shards")
    def serves(self, node: Node) -> str:
        """Return the names of the node's shards."""
        return ", ".join(map(short_name, node.shards.all())) or "nothing"

    @admin.display(description="problem")
    def problem(self, node: Node) -> str:
        """Return why routes cannot use the node's shards; its volunteer gets the same text."""
        return "; ".join(dict.fromkeys(shard.problem for shard in node.shards.all() if shard.problem))

    @admin.display(description="why not")
    def why(self, node: Node) -> str:
        """Return in a few words why routes use the node not at all, or only in part."""
        labels = [problem_label(shard) for shard in node.shards.all()]
        return "; ".join(dict.fromkeys(text for text in (node.reason, *labels) if text))

    @admin.display(description="sessions")
    def sessions(self, node: Node) -> int:
        """Return the number of open sessions, added up over the node's shards."""
        return sum(shard.figures.sessions for shard in node.shards.all())

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False, since nodes enrol themselves."""
        return False

    def save_model(self, request: HttpRequest, obj: Node, form: object, change: bool) -> None:
        """Save the node; if it is blocked, drop its connection."""
        obj.save(update_fields=["name", "is_blocked"])
        if obj.is_blocked:
            _drop(obj)

    def get_deleted_objects(
        self, objs: Sequence[Node] | QuerySet[Node], request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Let the node's shards be deleted with it, though an administrator may not delete a shard alone."""
        listed, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return listed, counts, lacking - {str(LoadedShard._meta.verbose_name)}, protected  # noqa: SLF001 - Django's own

    def delete_model(self, request: HttpRequest, obj: Node) -> None:
        """Delete a node, which then has to enrol again. Ledger entries of its earnings stay."""
        _drop(obj, ControlRefusalCode.UNKNOWN_NODE, "an administrator has removed this node; enrol it again")
        obj.delete()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        """Delete the chosen nodes."""
        for node in list(queryset):
            self.delete_model(request, node)

    @admin.action(description="Block", permissions=["change"])
    def block(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        """Block the chosen nodes and drop their connections."""
        nodes = list(queryset)
        Node.objects.filter(pk__in=[node.pk for node in nodes]).update(is_blocked=True)
        for node in nodes:
            _drop(node)
        self.message_user(request, f"Blocked {len(nodes)} node(s).", messages.SUCCESS)

    @admin.action(description="Unblock", permissions=["change"])
    def unblock(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        """Let the chosen nodes connect again."""
        changed = Node.objects.filter(pk__in=[node.pk for node in queryset]).update(is_blocked=False)
        self.message_user(request, f"Unblocked {changed} node(s).", messages.SUCCESS)


def _drop(
    node: Node,
    code: ControlRefusalCode = ControlRefusalCode.NODE_BLOCKED,
    message: str = BLOCKED_MESSAGE,
) -> None:
    async_to_sync(drop_connection)(str(node.pk), code, message)
