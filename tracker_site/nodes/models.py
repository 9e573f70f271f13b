"""Nodes and the shards that they have loaded.

Invariants: there is one row per public key; its owner, the user who enrolled it, never changes. If a node's lease has
expired, the node is absent, whatever state its row holds. `channel_name` names the one control connection that may
speak for the node. Digests and keys are stored as lower-case hex.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from meshnet.shard_facts import (
    Carrier,
    NodeReach,
    NodeState,
    ShardFigures,
    ShardIdentity,
    facts_from_json,
    facts_to_json,
)

if TYPE_CHECKING:
    from datetime import datetime

HEX_DIGEST_CHARACTERS = 64
REASON_CHARACTERS = 300


class Node(models.Model):
    """One enrolled installation of the node software."""

    # The state that the site sets; all other states come from the node's reports.
    OFFLINE: ClassVar[str] = "offline"
    STATES: ClassVar[list[tuple[str, str]]] = [(name, name.replace("_", " ")) for name in (OFFLINE, *NodeState)]
    CARRIERS: ClassVar[list[tuple[str, str]]] = [(carrier.value, carrier.value) for carrier in Carrier]

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=64)
    public_key = models.CharField(max_length=HEX_DIGEST_CHARACTERS, unique=True, editable=False)
    enrolled_at = models.DateTimeField(default=timezone.now, editable=False)
    is_blocked = models.BooleanField(default=False, help_text="A blocked node cannot connect.")

    state = models.CharField(max_length=16, choices=STATES, default=OFFLINE, editable=False)
    reason = models.CharField(max_length=REASON_CHARACTERS, blank=True, editable=False)
    last_seen_at = models.DateTimeField(null=True, editable=False)
    lease_expires_at = models.DateTimeField(null=True, editable=False)
    channel_name = models.CharField(max_length=128, blank=True, editable=False)
    software_version = models.CharField(max_length=64, blank=True, editable=False)
    link_address = models.CharField(max_length=128, blank=True, editable=False)
    link_fingerprint = models.CharField(max_length=HEX_DIGEST_CHARACTERS, blank=True, editable=False)
    carrier = models.CharField(max_length=8, choices=CARRIERS, default=Carrier.AUTO.value, editable=False)
    data_connected = models.BooleanField(default=False, editable=False)
    latency_ms = models.FloatField(null=True, editable=False)
    upload_bytes_per_s = models.PositiveBigIntegerField(default=0, editable=False)

    class Meta:
        """Nodes are ordered by name; the index is for queries by state and lease."""

        ordering: ClassVar[list[str]] = ["name", "pk"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["state", "lease_expires_at"], name="nodes_node_presence"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def reach(self) -> NodeReach:
        """How peers and the relay reach the node, as it last reported."""
        return NodeReach(
            carrier=Carrier(self.carrier),
            link_address=self.link_address,
            link_fingerprint=bytes.fromhex(self.link_fingerprint),
            data_connected=self.data_connected,
            latency_ms=self.latency_ms,
            upload_bytes_per_s=self.upload_bytes_per_s,
        )

    def is_present(self, now: datetime) -> bool:
        """Whether the node has a control connection and a lease that has not expired at `now`."""
        return bool(self.channel_name) and self.lease_expires_at is not None and self.lease_expires_at > now


class LoadedShard(models.Model):
    """A shard that one node has loaded: layers of one artifact, with the figures that the node last reported.

    `facts` holds all of its facts (`meshnet.shard_facts`); the other columns repeat those by which queries filter.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="shards")
    artifact_digest = models.CharField(max_length=HEX_DIGEST_CHARACTERS)
    architecture = models.CharField(max_length=64)
    layer_begin = models.PositiveIntegerField()
    layer_end = models.PositiveIntegerField()
    contract_digest = models.CharField(max_length=HEX_DIGEST_CHARACTERS)
    facts = models.JSONField(editable=False)
    first_seen_at = models.DateTimeField(default=timezone.now)
    # Why no route can use the shard, or only some can; empty if nothing is wrong. See `notices`.
    problem_code = models.CharField(max_length=64, blank=True)
    problem = models.CharField(max_length=REASON_CHARACTERS, blank=True)

    class Meta:
        """A node has at most one row for each layer range of an artifact."""

        ordering: ClassVar[list[str]] = ["artifact_digest", "layer_begin", "pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["node", "artifact_digest", "layer_begin", "layer_end"], name="nodes_loadedshard_once"
            ),
            models.CheckConstraint(
                condition=models.Q(layer_begin__lt=models.F("layer_end")), name="nodes_loadedshard_layers"
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["artifact_digest"], name="nodes_loadedshard_artifact"),
        ]

    def __str__(self) -> str:
        return f"{self.artifact_digest[:12]} {self.layers_text}"

    @classmethod
    def of(cls, node_id: str, identity: ShardIdentity, figures: ShardFigures) -> LoadedShard:
        """Return a row, not saved, for a shard of a node."""
        return cls(
            node_id=node_id,
            artifact_digest=identity.artifact_digest.hex(),
            architecture=identity.architecture,
            layer_begin=identity.layer_begin,
            layer_end=identity.layer_end,
            contract_digest=identity.contract_digest.hex(),
            facts=facts_to_json(identity, figures),
        )

    @property
    def identity(self) -> ShardIdentity:
        """The shard's model, layers and boundary contract."""
        return facts_from_json(ShardIdentity, self.facts)

    @property
    def figures(self) -> ShardFigures:
        """The shard's speed and free KV cells and sessions, as the node last reported them."""
        return facts_from_json(ShardFigures, self.facts)

    @property
    def layers_text(self) -> str:
        """The shard's layers for people to read: in "layers 0-14 of 30", layer 14 is the last one of the shard."""
        return f"layers {self.layer_begin}-{self.layer_end - 1} of {self.identity.n_layers}"
