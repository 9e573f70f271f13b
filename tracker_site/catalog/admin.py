"""Admin pages of the catalogue: each model's name and prices, and whether it is offered to clients.

A model is added by `meshnet site import-model`, not here.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.template.defaultfilters import filesizeformat

from meshnet.constants import MICROS_PER_CREDIT
from tracker_site.catalog.models import Model

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


@admin.register(Model)
class ModelAdmin(admin.ModelAdmin):
    """The admin list of models with their prices, and the page of each model."""

    list_display = (
        "name", "is_listed", "architecture", "n_layers", "context_length", "size", "prompt_price", "completion_price",
    )  # fmt: skip
    list_filter = ("is_listed", "architecture")
    search_fields = ("name", "artifact_digest")
    fields = (
        "name", "is_listed", "prompt_micros", "completion_micros", "coarsest_codec", "allows_mixed_recipes",
        "chat_template",
        "artifact_digest", "architecture", "n_layers", "context_length", "vocab_size", "size_bytes", "legal_cuts",
        "golden_digest", "end_tokens",
        "created_at",
    )  # fmt: skip
    readonly_fields = fields[7:]
    actions = ("list_models", "delist_models")

    @admin.display(description="size", ordering="size_bytes")
    def size(self, model: Model) -> str:
        """Return the size of all files of the model."""
        return filesizeformat(model.size_bytes)

    @admin.display(description="credits/M prompt", ordering="prompt_micros")
    def prompt_price(self, model: Model) -> str:
        """Return the price of a million prompt tokens in credits."""
        return _credits(model.prompt_micros)

    @admin.display(description="credits/M generated", ordering="completion_micros")
    def completion_price(self, model: Model) -> str:
        """Return the price of a million generated tokens in credits."""
        return _credits(model.completion_micros)

    @admin.action(description="Offer to clients", permissions=["change"])
    def list_models(self, request: HttpRequest, queryset: QuerySet[Model]) -> None:
        """Offer the chosen models to clients."""
        self.message_user(request, f"Offered {queryset.update(is_listed=True)} model(s).", messages.SUCCESS)

    @admin.action(description="Stop offering", permissions=["change"])
    def delist_models(self, request: HttpRequest, queryset: QuerySet[Model]) -> None:
        """Refuse new requests for the chosen models; running requests go on."""
        self.message_user(request, f"Stopped offering {queryset.update(is_listed=False)} model(s).", messages.SUCCESS)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: adding a model reads a file of the site's machine, which a form cannot do."""
        return False


def _credits(micros: int) -> str:
    return f"{Decimal(micros) / MICROS_PER_CREDIT:f}"
