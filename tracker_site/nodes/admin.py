"""Admin of nodes: who is here, what they serve, and why not.

Invariant: what nodes say of themselves is read-only; an administrator blocks and unblocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import Case, CharField, Prefetch, Value, When
from django.utils import timezone
from django.utils.timesince import timesince

from tracker_site.nodes.control import drop_connection
from tracker_site.nodes.known_models import known_models
from tracker_site.nodes.models import LoadedShard, Node
from tracker_site.nodes.refusals import ControlRefusalCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest

SHOWN_DIGITS = 12  # of a digest
SHARD_COLUMNS = ("served_model", "layers", "problem", "context_length", "step_ms", "kv_cells", "session_count")
SHARD_FIELDS = (
    "served_model", "artifact_digest", "architecture", "layers", "problem", "contract_digest", "context_length",
    "decode_ms_per_layer", "prefill_ms_per_layer", "tail_ms", "kv_cells", "session_count",
)  # fmt: skip


def named_shards() -> QuerySet[LoadedShard]:
    """Shards with the name of their model in the catalogue, empty where it has none."""
    names = [When(artifact_digest=digest, then=Value(name)) for digest, name in known_models.names().items()]
    return LoadedShard.objects.annotate(model_name=Case(*names, default=Value(""), output_field=CharField()))


class ShardFigures(admin.options.BaseModelAdmin):
    """Columns that shards show in both places."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[LoadedShard]:
        """Shards with what their columns show."""
        return named_shards()

    @admin.display(description="model", ordering="model_name")
    def served_model(self, shard: LoadedShard) -> str:
        """What the site calls it."""
        return getattr(shard, "model_name", "") or "unknown"

    @admin.display(description="ms a step")
    def step_ms(self, shard: LoadedShard) -> str:
        """One token through all its layers, as the node measured it."""
        return f"{shard.decode_ms_per_layer * (shard.layer_end - shard.layer_begin) + shard.tail_ms:.2f}"

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

    list_display = ("node", *SHARD_COLUMNS)
    list_select_related = ("node",)
    list_filter = ("problem_code", "architecture", "node__state")
    fields = readonly_fields = ("node", *SHARD_FIELDS, "first_seen_at")
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
        "problem",
        "sessions",
        "carrier",
        "data_connected",
        "software_version",
    )
    list_filter = ("state", "is_blocked", ("shards__problem_code", admin.EmptyFieldListFilter), "carrier")
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
        return Node.objects.prefetch_related(Prefetch("shards", queryset=named_shards()))

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
        return ", ".join(map(_short, node.shards.all())) or "nothing"

    @admin.display(description="problem")
    def problem(self, node: Node) -> str:
        """Why routes cannot use it, or not with others; what its volunteer is told as well."""
        return "; ".join(dict.fromkeys(shard.problem for shard in node.shards.all() if shard.problem))

    @admin.display(description="sessions")
    def sessions(self, node: Node) -> int:
        """Open on all its shards."""
        return sum(shard.sessions for shard in node.shards.all())

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nodes enrol themselves."""
        return False

    def save_model(self, request: HttpRequest, obj: Node, form: object, change: bool) -> None:
        """Store, and drop the connection of a node that was just blocked."""
        obj.save(update_fields=["name", "is_blocked"])
        if obj.is_blocked:
            _drop(obj)

    def get_deleted_objects(
        self, objs: Sequence[Node] | QuerySet[Node], request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """A node's shards go with it, though nobody may delete a shard by itself."""
        listed, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return listed, counts, lacking - {str(LoadedShard._meta.verbose_name)}, protected  # noqa: SLF001 - Django's own

    def delete_model(self, request: HttpRequest, obj: Node) -> None:
        """Forget a node, which has to enrol again; its earnings stay explained."""
        _drop(obj, ControlRefusalCode.UNKNOWN_NODE, "an administrator has removed this node; enrol it again")
        obj.delete()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Node]) -> None:
        """Forget the chosen nodes."""
        for node in list(queryset):
            self.delete_model(request, node)

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


def _short(shard: LoadedShard) -> str:
    name = getattr(shard, "model_name", "") or shard.artifact_digest[:SHOWN_DIGITS]
    return f"{name} [{shard.layer_begin}, {shard.layer_end}) of {shard.n_layers}"


def _drop(
    node: Node,
    code: ControlRefusalCode = ControlRefusalCode.NODE_BLOCKED,
    message: str = "an administrator has blocked this node",
) -> None:
    async_to_sync(drop_connection)(str(node.pk), code, message)
