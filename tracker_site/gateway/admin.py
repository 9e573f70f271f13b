"""Admin pages of generations; they can be read and not changed."""

from __future__ import annotations

from django.contrib import admin

from tracker_site.billing.admin import ReadOnlyAdmin
from tracker_site.billing.pricing import credits_text
from tracker_site.gateway.models import GenerationRecord, GenerationStage

SHOWN_DIGITS = 8


class GenerationStageInline(admin.TabularInline):
    """The stages of the generation's route."""

    model = GenerationStage
    extra = 0
    can_delete = False


@admin.register(GenerationRecord)
class GenerationRecordAdmin(ReadOnlyAdmin):
    """The list of ended generations: user, model, ending, failure, speed, charge and route."""

    list_display = (
        "short_id", "ended_at", "user", "model_name", "ending", "failure_code", "tokens", "first_token_ms", "rate",
        "charge",
    )  # fmt: skip
    list_select_related = ("user",)
    list_filter = ("ending", "failure_code", "model_name")
    search_fields = ("id", "user__username", "stages__node_name")
    date_hierarchy = "ended_at"
    inlines = (GenerationStageInline,)

    @admin.display(description="id", ordering="id")
    def short_id(self, record: GenerationRecord) -> str:
        """Return the last eight digits of the id; the search expects the whole id."""
        return f"...{record.pk[-SHOWN_DIGITS:]}"

    @admin.display(description="tokens", ordering="completion_tokens")
    def tokens(self, record: GenerationRecord) -> str:
        """Return the numbers of prompt tokens and generated tokens."""
        return f"{record.prompt_tokens} + {record.completion_tokens}"

    @admin.display(description="tokens/s", ordering="tokens_per_s")
    def rate(self, record: GenerationRecord) -> str:
        """Return the tokens in a second, measured from the first token to the last."""
        return f"{record.tokens_per_s:.1f}"

    @admin.display(description="credits", ordering="charge_micros")
    def charge(self, record: GenerationRecord) -> str:
        """Return the charge in credits."""
        return credits_text(record.charge_micros)
