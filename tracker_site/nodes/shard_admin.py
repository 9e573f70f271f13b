"""Admin of loaded shards: in their own list and on their node's page. `control_plane.admin` imports it.

Invariant: shards are what nodes report; nothing here changes one.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import Case, CharField, Value, When

from meshnet.shard_facts import ShardFigures, ShardIdentity
from tracker_site.catalog.models import Model
from tracker_site.nodes.models import LoadedShard
from tracker_site.nodes.notices import LABELS, SHOWN_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet
    from django.http import HttpRequest

SHARD_COLUMNS = ("served_model", "layers", "short_problem", "context_length", "step_ms", "kv_cells", "session_count")
# Facts that a column of their own shows better.
_SHOWN_OTHERWISE = frozenset({"layer_begin", "layer_end", "n_layers"})
# All other facts, by name: one that is added to `meshnet.shard_facts` appears in the admin by itself.
FACT_NAMES = tuple(
    field.name
    for facts in (ShardIdentity, ShardFigures)
    for field in fields(facts)
    if field.name not in _SHOWN_OTHERWISE
)
SHARD_FIELDS = ("problem", "served_model", "layers", "step_ms", "prefill_ms", "first_seen_at", *FACT_NAMES)


def named_shards() -> QuerySet[LoadedShard]:
    """Shards with the name of their model in the catalogue, empty where it has none."""
    names = [When(artifact_digest=digest, then=Value(name)) for digest, name in Model.names_by_digest().items()]
    return LoadedShard.objects.annotate(model_name=Case(*names, default=Value(""), output_field=CharField()))


def short_name(shard: LoadedShard) -> str:
    """A shard of `named_shards` in a few words."""
    name = getattr(shard, "model_name", "") or shard.artifact_digest[:SHOWN_DIGITS]
    return f"{name}, {shard.layers_text}"


def problem_label(shard: LoadedShard) -> str:
    """What is wrong with it in a word or two; empty where nothing is."""
    return LABELS.get(shard.problem_code, shard.problem_code)


def _fact(name: str) -> Callable[[admin.options.BaseModelAdmin, LoadedShard], str]:
    """Return an admin column for one reported fact."""

    @admin.display(description=name.replace("_", " "), ordering=f"facts__{name}")
    def shown(_admin: admin.options.BaseModelAdmin, shard: LoadedShard) -> str:
        value = shard.facts.get(name, "")
        return ", ".join(value) if isinstance(value, list) else str(value)

    return shown


class ShardColumns(admin.options.BaseModelAdmin):
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
        figures = shard.figures
        return f"{figures.decode_ms_per_layer * (shard.layer_end - shard.layer_begin) + figures.tail_ms:.2f}"

    @admin.display(description="ms a prompt token")
    def prefill_ms(self, shard: LoadedShard) -> str:
        """One token of a full chunk through all its layers."""
        return f"{shard.figures.prefill_ms_per_layer * (shard.layer_end - shard.layer_begin):.3f}"

    @admin.display(description="problem", ordering="problem_code")
    def short_problem(self, shard: LoadedShard) -> str:
        """What is wrong, in a word or two."""
        return problem_label(shard)

    @admin.display(description="layers", ordering="layer_begin")
    def layers(self, shard: LoadedShard) -> str:
        """Range and whole."""
        return shard.layers_text

    @admin.display(description="KV cells free")
    def kv_cells(self, shard: LoadedShard) -> str:
        """Free and all."""
        return f"{shard.figures.kv_cells_free} of {shard.figures.kv_cells_total}"

    @admin.display(description="sessions")
    def session_count(self, shard: LoadedShard) -> str:
        """Open and most."""
        return f"{shard.figures.sessions} of {shard.figures.max_sessions}"

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Only nodes report shards."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Only nodes report shards."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """A report replaces them."""
        return False


for _name in FACT_NAMES:
    setattr(ShardColumns, _name, _fact(_name))


class LoadedShardInline(ShardColumns, admin.StackedInline):
    """Shards on their node's page."""

    model = LoadedShard
    fields = readonly_fields = SHARD_FIELDS
    extra = 0


@admin.register(LoadedShard)
class LoadedShardAdmin(ShardColumns, admin.ModelAdmin):
    """All shards of the site."""

    list_display = ("node", *SHARD_COLUMNS)
    list_select_related = ("node",)
    list_filter = ("problem_code", "architecture", "node__state")
    fields = readonly_fields = ("node", *SHARD_FIELDS)
    search_fields = ("artifact_digest", "contract_digest", "node__name")
