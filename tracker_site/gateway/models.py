"""Database tables of ended generations and the stages of their routes.

Invariants: a record is written once, after its generation is settled. It has counts, times, codes and amounts, and no
text of prompt or completion. A stage's row keeps the node's name, so that earnings can be explained even if the node is
deleted.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

ID_CHARACTERS = 48
NAME_CHARACTERS = 100
CODE_CHARACTERS = 64
MESSAGE_CHARACTERS = 300


class GenerationRecord(models.Model):
    """The record of one ended generation: its user, model, outcome, counts, times and charge."""

    class Ending(models.TextChoices):
        """How a generation ended."""

        FINISHED = "finished", "finished"
        CANCELLED = "cancelled", "cancelled"
        FAILED = "failed", "failed"

    id = models.CharField(max_length=ID_CHARACTERS, primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="generations")
    model_name = models.CharField(max_length=NAME_CHARACTERS)
    face = models.CharField(verbose_name="endpoint", max_length=16, help_text="Endpoint: chat or completion.")
    ending = models.CharField(max_length=16, choices=Ending.choices)
    finish_reason = models.CharField(max_length=16, blank=True)
    prompt_tokens = models.PositiveIntegerField()
    max_tokens = models.PositiveIntegerField(
        verbose_name="longest answer",
    )
    completion_tokens = models.PositiveIntegerField(
        verbose_name="generated tokens", help_text="Tokens delivered to the client."
    )
    charge_micros = models.PositiveBigIntegerField(verbose_name="charge", help_text="Charge in micro-credits.")
    first_token_ms = models.PositiveIntegerField(verbose_name="time to first token, ms", null=True, blank=True)
    elapsed_ms = models.PositiveIntegerField(
        verbose_name="elapsed time, ms",
    )
    tokens_per_s = models.FloatField(
        verbose_name="tokens/s", help_text="Tokens in a second, from the first token to the last."
    )
    failure_code = models.CharField(max_length=CODE_CHARACTERS, blank=True)
    failure_stage = models.PositiveSmallIntegerField(null=True, blank=True)
    failure_message = models.CharField(max_length=MESSAGE_CHARACTERS, blank=True)
    ended_at = models.DateTimeField(default=timezone.now)

    class Meta:
        """The newest records come first."""

        ordering: ClassVar[list[str]] = ["-ended_at"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["user", "-ended_at"], name="gateway_generation_user"),
        ]

    def __str__(self) -> str:
        return f"{self.id} ({self.ending})"


class GenerationStage(models.Model):
    """One stage of an ended generation's route. `layer_end` is one past its last layer."""

    generation = models.ForeignKey(GenerationRecord, on_delete=models.CASCADE, related_name="stages")
    stage = models.PositiveSmallIntegerField()
    node_id = models.CharField(max_length=ID_CHARACTERS)
    node_name = models.CharField(max_length=NAME_CHARACTERS)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="generation_stages")
    layer_begin = models.PositiveIntegerField(
        verbose_name="first layer",
    )
    layer_end = models.PositiveIntegerField(
        verbose_name="end of layers",
    )
    carrier = models.CharField(max_length=16)
    seam_codec = models.CharField(
        max_length=16,
        blank=True,
        help_text="Packing of the rows that it handed on; empty for the last stage.",
    )
    recipe = models.CharField(max_length=64, blank=True, help_text="Engine and arithmetic; empty if unknown.")

    class Meta:
        """The stages of a generation are sorted in route order, and each is stored once."""

        ordering: ClassVar[list[str]] = ["generation", "stage"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["generation", "stage"], name="gateway_stage_once"),
            models.CheckConstraint(
                condition=models.Q(layer_begin__lt=models.F("layer_end")), name="gateway_stage_layers"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_name} {self.layer_begin}:{self.layer_end}"
