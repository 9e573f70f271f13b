"""The models of the catalogue.

Invariants: a row is complete when it exists (its vocabulary copy is on disk and opens); its artifact never changes,
only its name, prices, listing, packing and golden probe do. Nothing is fetched when a request comes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone

from meshnet.frame import Codec
from tracker_site.catalog.known_model import KnownModel

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$"


def golden_path(golden_digest: str) -> Path:
    """Where the golden probe of that digest (hex) is kept."""
    return Path(settings.GOLDEN_DIRECTORY) / f"{golden_digest}.safetensors"


class SeamPacking(models.TextChoices):
    """How far rows between stages may be packed: by that codec, and by all that are more faithful."""

    RAW = Codec.RAW.label, "raw only: nothing is lost"
    BF16 = Codec.BF16.label, "up to bf16: half the bytes"
    Q8_0 = Codec.Q8_0.label, "up to q8_0: about a quarter of the bytes"


class Model(models.Model):
    """One artifact: one model at one quantisation."""

    name = models.CharField(
        max_length=100, unique=True, validators=[RegexValidator(NAME_PATTERN)], help_text="What API clients ask for."
    )
    artifact_digest = models.CharField(max_length=64, unique=True, editable=False)
    architecture = models.CharField(max_length=64, editable=False)
    n_layers = models.PositiveIntegerField(editable=False)
    context_length = models.PositiveIntegerField(editable=False)
    vocab_size = models.PositiveIntegerField(editable=False)
    size_bytes = models.BigIntegerField(editable=False)
    vocabulary_file = models.CharField(max_length=100, editable=False, help_text="In the vocabulary directory.")
    chat_template = models.TextField(blank=True, help_text="Jinja; empty where the file has none.")
    legal_cuts = models.JSONField(
        null=True, editable=False, help_text="Layers that a stage may begin with, beside the first; null: any."
    )
    golden_digest = models.CharField(
        max_length=64, blank=True, editable=False, help_text="SHA-256 of its golden probe; empty: nodes test nothing."
    )
    end_tokens = models.JSONField(editable=False, help_text="Ids that end a generation.")
    prompt_micros = models.PositiveBigIntegerField(default=0, help_text="Micro-credits per million prompt tokens.")
    completion_micros = models.PositiveBigIntegerField(
        default=0, help_text="Micro-credits per million generated tokens."
    )
    is_listed = models.BooleanField(default=True, help_text="Offered to clients.")
    coarsest_codec = models.CharField(
        max_length=8,
        choices=SeamPacking.choices,
        default=SeamPacking.RAW,
        help_text="What rows between stages may be packed by where a volunteer's line would hold the answer up.",
    )
    allows_mixed_recipes = models.BooleanField(
        default=False,
        help_text="Nodes whose engines compute differently (recipes) may answer together; never on exact routes.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        """By name."""

        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(n_layers__gt=0, context_length__gt=0, vocab_size__gt=0), name="catalog_model_sizes"
            ),
            # 10^12 keeps any charge within 64 bits at the largest token counts.
            models.CheckConstraint(
                condition=models.Q(prompt_micros__lte=10**12, completion_micros__lte=10**12),
                name="catalog_model_prices",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def digest(self) -> bytes:
        """The artifact's digest, 32 bytes."""
        return bytes.fromhex(self.artifact_digest)

    @property
    def vocabulary_path(self) -> Path:
        """The vocabulary-only copy of the GGUF file."""
        return Path(settings.VOCABULARY_DIRECTORY) / self.vocabulary_file

    @property
    def golden_path(self) -> Path | None:
        """What nodes prove their shards by; None where there is nothing."""
        return golden_path(self.golden_digest) if self.golden_digest else None

    @classmethod
    def known(cls, artifact_digest: str) -> KnownModel | None:
        """The facts that a shard is compared with; None if no model has this digest (hex)."""
        found = cls.objects.filter(artifact_digest=artifact_digest)
        row = found.values_list(
            "name", "n_layers", "vocab_size", "is_listed", "legal_cuts", "allows_mixed_recipes"
        ).first()
        return None if row is None else KnownModel(*row)

    @classmethod
    def names_by_digest(cls) -> dict[str, str]:
        """Names by artifact digest in hex."""
        return dict(cls.objects.values_list("artifact_digest", "name"))

    @classmethod
    def listed(cls, name: str) -> Model | None:
        """The model that clients call `name`, if it is offered."""
        # PostgreSQL takes no zero byte, not even in a comparison.
        if not re.fullmatch(NAME_PATTERN, name):
            return None
        return cls.objects.filter(name=name, is_listed=True).first()
