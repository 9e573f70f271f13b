"""Admin pages of loaded shards: a list of all, and the part of a node's page that shows its shards.

Invariant: only nodes' reports change shards; these pages are read-only.
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
# The column "layers" shows the first three; the bytes of an exact class are for comparing, not for reading.
_NOT_SHOWN = frozenset({"layer_begin", "layer_end", "n_layers", "exact_class"})
# All other facts, so that a fact which is added to `meshnet.shard_facts` appears in the admin.
FACT_NAMES = tuple(
    field.name for facts in (ShardIdentity, ShardFigures) for field in fields(facts) if field.name not in _NOT_SHOWN
)
SHARD_FIELDS = ("problem", "served_model", "layers", "step_ms", "prefill_ms", "first_seen_at", *FACT_NAMES)


def named_shards() -> QuerySet[LoadedShard]:
    """Return all shards, each with its model's name as `model_name`; "" if the model is not in the catalogue."""
    names = [When(artifact_digest=digest, then=Value(name)) for digest, name in Model.names_by_digest().items()]
    return LoadedShard.objects.annotate(model_name=Case(*names, default=Value(""), output_field=CharField()))


def short_name(shard: LoadedShard) -> str:
    """Return the model's name and the layers of a shard that `named_shards` returned."""
    name = getattr(shard, "model_name", "") or shard.artifact_digest[:SHOWN_DIGITS]
    return f"{name}, {shard.layers_text}"


def problem_label(shard: LoadedShard) -> str:
    """Return the shard's problem in a few words; empty if it has none."""
    return LABELS.get(shard.problem_code, shard.problem_code)


def _fact(name: str) -> Callable[[admin.options.BaseModelAdmin, LoadedShard], str]:
    """Return the admin column that shows the fact `name` of each shard."""

    @admin.display(description=name.replace("kv_", "KV ").replace("_", " "), ordering=f"facts__{name}")
    def shown(_admin: admin.options.BaseModelAdmin, shard: LoadedShard) -> str:
        match shard.facts.get(name, ""):
            case list() as labels:
                return ", ".join(labels)
            case float() as figure:
                return f"{figure:.4g}"
            case value:
                return str(value)

    return shown


class ShardColumns(admin.options.BaseModelAdmin):
    """Base class with the columns that the list of shards and the node's page share; read-only."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[LoadedShard]:
        """Return all shards with their models' names."""
        return named_shards()

    @admin.display(description="model", ordering="model_name")
    def served_model(self, shard: LoadedShard) -> str:
        """Return the model's name, or "unknown"."""
        return getattr(shard, "model_name", "") or "unknown"

    @admin.display(description="ms a step")
    def step_ms(self, shard: LoadedShard) -> str:
        """Return the ms that one token takes through all layers of the shard and, at the tail, the output head."""
        figures = shard.figures
        return f"{figures.decode_ms_per_layer * (shard.layer_end - shard.layer_begin) + figures.tail_ms:.2f}"

    @admin.display(description="ms a prompt token")
    def prefill_ms(self, shard: LoadedShard) -> str:
        """Return the ms that a full prompt chunk takes through all layers of the shard, per token."""
        return f"{shard.figures.prefill_ms_per_layer * (shard.layer_end - shard.layer_begin):.3f}"

    @admin.display(description="problem", ordering="problem_code")
    def short_problem(self, shard: LoadedShard) -> str:
        """Return the shard's problem in a few words; "" if it has none."""
        return problem_label(shard)

    @admin.display(description="layers", ordering="layer_begin")
    def layers(self, shard: LoadedShard) -> str:
        """Return the shard's layers and the model's number of layers, for example "0-14 of 30"."""
        return shard.layers_text.removeprefix("layers ")

    @admin.display(description="KV cells free")
    def kv_cells(self, shard: LoadedShard) -> str:
        """Return how many KV cells are free, and how many there are."""
        return f"{shard.figures.kv_cells_free} of {shard.figures.kv_cells_total}"

    @admin.display(description="sessions")
    def session_count(self, shard: LoadedShard) -> str:
        """Return how many sessions are open on the shard, and how many may be."""
        return f"{shard.figures.sessions} of {shard.figures.max_sessions}"

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return False, since only reports of nodes add shards."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return False, since only reports of nodes change shards."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return False, since only reports of nodes remove shards."""
        return False


for _name in FACT_NAMES:
    setattr(ShardColumns, _name, _fact(_name))


class LoadedShardInline(ShardColumns, admin.StackedInline):
    """The part of a node's admin page that shows its shards."""

    model = LoadedShard
    fields = readonly_fields = SHARD_FIELDS
    extra = 0


@admin.register(LoadedShard)
class LoadedShardAdmin(ShardColumns, admin.ModelAdmin):
    """The admin list of all shards."""

    list_display = ("node", *SHARD_COLUMNS)
    list_select_related = ("node",)
    list_filter = ("problem_code", "architecture", "node__state")
    fields = readonly_fields = ("node", *SHARD_FIELDS)
    search_fields = ("artifact_digest", "contract_digest", "node__name")
