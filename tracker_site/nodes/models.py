"""Nodes and the shards they have loaded.

Invariants: one row per public key, for ever owned by who enrolled it; a node is present only while its lease runs,
however its row's state reads; `channel_name` names the one control connection that may speak for the node. Digests
and keys are stored as lower-case hex.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

if TYPE_CHECKING:
    from datetime import datetime

HEX_DIGEST_CHARACTERS = 64
REASON_CHARACTERS = 300


class Node(models.Model):
    """One installation of the node software."""

    class State(models.TextChoices):
        """What the node last said of itself; OFFLINE is the site's own word."""

        OFFLINE = "offline", "offline"
        LOADING = "loading", "loading"
        SERVING = "serving", "serving"
        PAUSED = "paused", "paused"
        DEGRADED = "degraded", "degraded"
        SELF_TEST_FAILED = "self_test_failed", "self test failed"

    class Carrier(models.TextChoices):
        """How the volunteer lets activations travel."""

        AUTO = "auto", "auto"
        DIRECT = "direct", "direct"
        RELAY = "relay", "relay"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=64)
    public_key = models.CharField(max_length=HEX_DIGEST_CHARACTERS, unique=True, editable=False)
    enrolled_at = models.DateTimeField(default=timezone.now, editable=False)
    is_blocked = models.BooleanField(default=False, help_text="A blocked node cannot connect.")

    state = models.CharField(max_length=16, choices=State.choices, default=State.OFFLINE, editable=False)
    reason = models.CharField(max_length=REASON_CHARACTERS, blank=True, editable=False)
    last_seen_at = models.DateTimeField(null=True, editable=False)
    lease_expires_at = models.DateTimeField(null=True, editable=False)
    channel_name = models.CharField(max_length=128, blank=True, editable=False)
    software_version = models.CharField(max_length=64, blank=True, editable=False)
    link_address = models.CharField(max_length=128, blank=True, editable=False)
    link_fingerprint = models.CharField(max_length=HEX_DIGEST_CHARACTERS, blank=True, editable=False)
    carrier = models.CharField(max_length=8, choices=Carrier.choices, default=Carrier.AUTO, editable=False)
    data_connected = models.BooleanField(default=False, editable=False)
    latency_ms = models.FloatField(null=True, editable=False)
    upload_bytes_per_s = models.PositiveBigIntegerField(default=0, editable=False)

    class Meta:
        """The register is read by lease."""

        ordering: ClassVar[list[str]] = ["name", "pk"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["state", "lease_expires_at"], name="nodes_node_presence"),
        ]

    def __str__(self) -> str:
        return self.name

    def is_present(self, now: datetime) -> bool:
        """Whether its lease runs and a control connection stands."""
        return bool(self.channel_name) and self.lease_expires_at is not None and self.lease_expires_at > now


class LoadedShard(models.Model):
    """Layers `[layer_begin, layer_end)` of one artifact, ready on one node, with its last figures."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="shards")
    artifact_digest = models.CharField(max_length=HEX_DIGEST_CHARACTERS)
    architecture = models.CharField(max_length=64)
    layer_begin = models.PositiveIntegerField()
    layer_end = models.PositiveIntegerField()
    n_layers = models.PositiveIntegerField()
    contract_digest = models.CharField(max_length=HEX_DIGEST_CHARACTERS)
    # Serialised meshnet.v1.ExactClass in deterministic order: two are equal when their bytes are.
    exact_class = models.BinaryField()
    context_length = models.PositiveIntegerField()
    vocab_size = models.PositiveIntegerField()
    needs_token_ids = models.BooleanField()
    seam_bytes_per_row = models.PositiveIntegerField(help_text="Raw bytes of all output tensors; 0 on the tail.")
    codecs = models.CharField(
        max_length=64, blank=True, help_text="Beside raw, how it packs rows between stages; comma separated."
    )
    recipe = models.CharField(
        max_length=64, blank=True, help_text="Engine and arithmetic; empty where it does not say."
    )
    first_seen_at = models.DateTimeField(default=timezone.now)
    # Why no route takes it, or not together with others; empty while all is well. See `notices`.
    problem_code = models.CharField(max_length=64, blank=True)
    problem = models.CharField(max_length=REASON_CHARACTERS, blank=True)

    decode_ms_per_layer = models.FloatField()
    prefill_ms_per_layer = models.FloatField()
    tail_ms = models.FloatField()
    kv_cells_total = models.PositiveIntegerField()
    kv_cells_free = models.PositiveIntegerField()
    max_sessions = models.PositiveIntegerField()
    sessions = models.PositiveIntegerField()

    class Meta:
        """A node loads one range of an artifact once."""

        ordering: ClassVar[list[str]] = ["artifact_digest", "layer_begin", "pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["node", "artifact_digest", "layer_begin", "layer_end"], name="nodes_loadedshard_once"
            ),
            models.CheckConstraint(
                condition=models.Q(layer_begin__lt=models.F("layer_end"))
                & models.Q(layer_end__lte=models.F("n_layers")),
                name="nodes_loadedshard_layers",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["artifact_digest"], name="nodes_loadedshard_artifact"),
        ]

    def __str__(self) -> str:
        return f"{self.artifact_digest[:12]} [{self.layer_begin}, {self.layer_end}) of {self.n_layers}"
