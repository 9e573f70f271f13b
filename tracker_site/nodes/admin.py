"""Admin of nodes: who is here, what they serve, and why not.

Invariant: what nodes say of themselves is read-only; an administrator blocks and unblocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import Count, Q
from django.utils import timezone
from django.utils.timesince import timesince

from tracker_site.nodes.control import drop_connection
from tracker_site.nodes.models import LoadedShard, Node
from tracker_site.nodes.refusals import ControlRefusalCode

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

SHARD_FIELDS = (
    "artifact_digest", "architecture", "layers", "contract_digest", "problem", "context_length",
    "decode_ms_per_layer", "prefill_ms_per_layer", "tail_ms", "kv_cells", "session_count",
)  # fmt: skip


class ShardFigures(admin.options.BaseModelAdmin):
    """Columns that shards show in both places."""

    @admin.display(description="layers", ordering="layer_begin")
    def layers(self, shard: LoadedShard) -> str:
        """Range and whole."""
        return f"[{shard.layer_begin}, {shard.layer_end}) of {shard.n_layers}"

    @admin.display(description="KV cells free")
    def kv_cells(self, shard: LoadedShard) -> str:
        """Free and all."""
        return f"{shard.kv_cells_free} of {shard.kv_cells_total}"

    @admin.display(description="sessions")
    def session_count(self, shard: LoadedShard) -> str:
        """Open and most."""
        return f"{shard.sessions} of {shard.max_sessions}"

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Only nodes report shards."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Only nodes report shards."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """A report replaces them."""
        return False


class LoadedShardInline(ShardFigures, admin.TabularInline):
    """Shards on their node's page."""

    model = LoadedShard
    fields = readonly_fields = SHARD_FIELDS
    extra = 0


@admin.register(LoadedShard)
class LoadedShardAdmin(ShardFigures, admin.ModelAdmin):
    """All shards of the site."""

    list_display = ("node", *SHARD_FIELDS)
    list_select_related = ("node",)
    list_filter = ("architecture", "node__state")
    search_fields = ("artifact_digest", "contract_digest", "node__name")


@admin.register(Node)
class NodeAdmin(admin.ModelAdmin):
    """The register."""

    list_display = (
        "name",
        "owner",
        "presence",
        "reason",
        "last_seen",
        "serves",
        "mismatched",
        "carrier",
        "data_connected",
    )
    list_filter = ("state", "is_blocked", "carrier")
    list_select_related = ("owner",)
    search_fields = ("name", "owner__username", "public_key")
    fields = (
        "name", "owner", "is_blocked", "presence", "reason", "last_seen_at", "lease_expires_at", "enrolled_at",
        "public_key", "software_version", "carrier", "data_connected", "link_address", "link_fingerprint",
    )  # fmt: skip
    readonly_fields = tuple(name for name in fields if name not in {"name", "is_blocked"})
    inlines = (LoadedShardInline,)
    actions = ("block", "unblock")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Node]:
        """Nodes with what their columns show."""
        mismatched = Count("shards", filter=~Q(shards__problem_code=""))
        return Node.objects.annotate(mismatch_count=mismatched).prefetch_related("shards")

    @admin.display(description="state", ordering="state")
    def presence(self, node: Node) -> str:
        """The state that counts: an expired lease is absence."""
        if node.is_blocked:
            return "blocked"
        return node.get_state_display() if node.is_present(timezone.now()) else "offline"

    @admin.display(description="last seen", ordering="last_seen_at")
    def last_seen(self, node: Node) -> str:
        """How long ago."""
        return f"{timesince(node.last_seen_at)} ago" if node.last_seen_at else "never"

    @admin.display(description="shards")
    def serves(self, node: Node) -> str:
        """What it has loaded."""
        return ", ".join(str(shard) for shard in node.shards.all()) or "nothing"

    @admin.display(description="contract problem", boolean=True)
    def mismatched(self, node: Node) -> bool | None:
        """Whether a shard cannot share routes; None where there is nothing to say."""
        return False if getattr(node, "mismatch_count", 0) else None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nodes enrol themselves."""
        return False

    def save_model(self, request: HttpRequest, obj: Node, form: object, change: bool) -> None:
        """Store, and drop the connection of a node that was just blocked."""
        obj.save(update_fields=["name", "is_blocked"])
        if obj.is_blocked:
            _drop(obj)

    @admin.action(description="Block", permissions=["change"])
    def block(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        """Keep the chosen nodes out, from now on."""
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


def _drop(node: Node) -> None:
    async_to_sync(drop_connection)(
        str(node.pk), ControlRefusalCode.NODE_BLOCKED, "an administrator has blocked this node"
    )
