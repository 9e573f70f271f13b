"""Read-only admin pages of ended generations."""

from __future__ import annotations

from django.contrib import admin

from tracker_site.billing.admin import ReadOnlyAdmin
from tracker_site.billing.pricing import credits_text
from tracker_site.gateway.models import GenerationRecord, GenerationStage

SHOWN_DIGITS = 8


class GenerationStageInline(admin.TabularInline):
    """Shows the stages of a generation's route on the generation's page."""

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
        """Return dots and the last eight characters of the id, by which the search also finds the generation."""
        return f"...{record.pk[-SHOWN_DIGITS:]}"

    @admin.display(description="tokens", ordering="completion_tokens")
    def tokens(self, record: GenerationRecord) -> str:
        """Return the numbers of prompt tokens and of generated tokens, for example "12 + 34"."""
        return f"{record.prompt_tokens} + {record.completion_tokens}"

    @admin.display(description="tokens/s", ordering="tokens_per_s")
    def rate(self, record: GenerationRecord) -> str:
        """Return the generated tokens per second, measured from the first token to the last."""
        return f"{record.tokens_per_s:.1f}"

    @admin.display(description="credits", ordering="charge_micros")
    def charge(self, record: GenerationRecord) -> str:
        """Return the charge in credits."""
        return credits_text(record.charge_micros)
