"""The models of the catalogue.

Invariants: if a row exists, it is complete (its vocabulary copy is on disk and opens). The artifact of a row never
changes; its name, prices, listing, allowed codecs and recipes, layers, cuts and golden probe may change. No request
makes the site fetch a file.
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
    """Return the path of the golden probe whose file has this SHA-256 (hex)."""
    return Path(settings.GOLDEN_DIRECTORY) / f"{golden_digest}.safetensors"


class SeamPacking(models.TextChoices):
    """The coarsest codec that may pack rows between stages; every more exact codec is then allowed too."""

    RAW = Codec.RAW.label, "raw only: no precision is lost"
    BF16 = Codec.BF16.label, "up to bf16: half the bytes"
    Q8_0 = Codec.Q8_0.label, "up to q8_0: about a quarter of the bytes"


class Model(models.Model):
    """A model at one quantisation, which is one artifact (a GGUF file, or one split into parts)."""

    name = models.CharField(
        max_length=100,
        unique=True,
        validators=[RegexValidator(NAME_PATTERN)],
        help_text="API clients ask for this name.",
    )
    artifact_digest = models.CharField(max_length=64, unique=True, editable=False)
    architecture = models.CharField(max_length=64, editable=False)
    n_layers = models.PositiveIntegerField(verbose_name="layers", editable=False)
    context_length = models.PositiveIntegerField(editable=False)
    vocab_size = models.PositiveIntegerField(verbose_name="vocabulary size", editable=False)
    size_bytes = models.BigIntegerField(verbose_name="size in bytes", editable=False)
    vocabulary_file = models.CharField(
        max_length=100, editable=False, help_text="File name in the vocabulary directory."
    )
    chat_template = models.TextField(blank=True, help_text="Jinja; empty if the file has none.")
    legal_cuts = models.JSONField(
        null=True,
        editable=False,
        help_text="Layers other than 0 that a stage may begin with; if this is null, any layer may.",
    )
    golden_digest = models.CharField(
        verbose_name="golden probe",
        max_length=64,
        blank=True,
        editable=False,
        help_text="SHA-256 of its golden probe; if this is empty, nodes serve the model untested.",
    )
    end_tokens = models.JSONField(editable=False, help_text="Token ids that end a generation.")
    prompt_micros = models.PositiveBigIntegerField(
        verbose_name="prompt price", default=0, help_text="Micro-credits per million prompt tokens."
    )
    completion_micros = models.PositiveBigIntegerField(
        verbose_name="completion price", default=0, help_text="Micro-credits per million generated tokens."
    )
    is_listed = models.BooleanField(verbose_name="offered", default=True, help_text="Clients may use this model.")
    coarsest_codec = models.CharField(
        max_length=8,
        choices=SeamPacking.choices,
        default=SeamPacking.RAW,
        help_text="The coarsest packing of rows between stages, used if a volunteer's line is too slow for raw rows.",
    )
    allows_mixed_recipes = models.BooleanField(
        verbose_name="mixed recipes allowed",
        default=False,
        help_text="Nodes of different recipes (engine and arithmetic) may share a route, unless the route is exact.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        """Ordered by name. The counts of layers, positions and tokens are above zero; prices have an upper limit."""

        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(n_layers__gt=0, context_length__gt=0, vocab_size__gt=0), name="catalog_model_sizes"
            ),
            # With prices up to 10^12, a charge fits in 64 bits even for the largest token counts.
            models.CheckConstraint(
                condition=models.Q(prompt_micros__lte=10**12, completion_micros__lte=10**12),
                name="catalog_model_prices",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def digest(self) -> bytes:
        """The digest of the artifact, 32 bytes."""
        return bytes.fromhex(self.artifact_digest)

    @property
    def vocabulary_path(self) -> Path:
        """Path of the vocabulary-only copy of the GGUF file."""
        return Path(settings.VOCABULARY_DIRECTORY) / self.vocabulary_file

    @property
    def golden_path(self) -> Path | None:
        """Path of the golden probe by which nodes prove their shards; None if the model has none."""
        return golden_path(self.golden_digest) if self.golden_digest else None

    @classmethod
    def known(cls, artifact_digest: str) -> KnownModel | None:
        """Return a model's facts, to be compared with a shard's; None if no model has this artifact digest (hex)."""
        found = cls.objects.filter(artifact_digest=artifact_digest)
        row = found.values_list(
            "name", "n_layers", "vocab_size", "is_listed", "legal_cuts", "allows_mixed_recipes"
        ).first()
        return None if row is None else KnownModel(*row)

    @classmethod
    def names_by_digest(cls) -> dict[str, str]:
        """Return the models' names by artifact digest (hex)."""
        return dict(cls.objects.values_list("artifact_digest", "name"))

    @classmethod
    def listed(cls, name: str) -> Model | None:
        """Return the model that clients call `name`; None if there is none or it is not offered."""
        # PostgreSQL refuses a zero byte even in a comparison, so a name that no model can have is not looked up.
        if not re.fullmatch(NAME_PATTERN, name):
            return None
        return cls.objects.filter(name=name, is_listed=True).first()
