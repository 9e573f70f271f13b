"""Admin of the catalogue: names, prices, listing. Models are imported by `meshnet site import-model`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from tracker_site.catalog.models import Model

if TYPE_CHECKING:
    from django.http import HttpRequest


@admin.register(Model)
class ModelAdmin(admin.ModelAdmin):
    """What is offered, at what price."""

    list_display = (
        "name",
        "is_listed",
        "architecture",
        "n_layers",
        "context_length",
        "prompt_micros",
        "completion_micros",
    )
    list_filter = ("is_listed", "architecture")
    search_fields = ("name", "artifact_digest")
    fields = (
        "name", "is_listed", "prompt_micros", "completion_micros", "chat_template", "artifact_digest", "architecture",
        "n_layers", "context_length", "vocab_size", "size_bytes", "end_tokens", "created_at",
    )  # fmt: skip
    readonly_fields = fields[5:]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Importing reads a file, which a form cannot."""
        return False
