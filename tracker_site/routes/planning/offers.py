"""What a node offers a route: one loaded shard, its measured cost, and how its peers reach it.

Invariant: pure values. Every figure is a node's own measurement and therefore a claim; a false one costs speed, never
correctness, because stages check each other's contracts before a route opens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from meshnet.frame import Codec

# One-way time between a node and the site where nothing has been measured yet, in ms: a home line in the same region.
DEFAULT_LATENCY_MS: Final = 10.0

# What the relay itself adds to a hop, in ms: two socket reads and writes and one event loop turn.
RELAY_HOP_MS: Final = 0.5

# How much slower a step gets for each session that the shard already serves. Rows of several sessions share one batch,
# so it is far from 1; its main work is to send new sessions to idle nodes.
LOAD_PER_SESSION: Final = 0.1


class CarrierPolicy(StrEnum):
    """How a volunteer lets the node exchange rows with its neighbours."""

    AUTO = "auto"
    DIRECT = "direct"
    RELAY = "relay"


class Hop(Enum):
    """How two neighbouring stages exchange rows."""

    LOCAL = "local"
    DIRECT = "direct"
    RELAY = "relay"


class CarrierClass(NamedTuple):
    """All that a hop's carrier depends on, at either end."""

    policy: CarrierPolicy
    is_dialable: bool
    has_link: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """One shard that a live node would serve.

    Attributes:
        layer_begin: first absolute layer.
        layer_end: one past the last layer.
        n_layers: of the whole model.
        contract_digest: equal on all stages of a route.
        exact_class: canonical bytes of everything that may change a result's bits; equal on exact routes.
        decode_ms_per_layer: one row.
        prefill_ms_per_layer: one row of a full chunk.
        tail_ms: norm and output head, one row; 0 where not owned.
        sessions: served now.
        latency_ms: one way, between the node and the site's data plane.
        context_length: positions of a session; 0 where unknown.
        upload_bytes_per_s: that the node's line takes in, by its owner's word; 0 where unknown.
        seam_bytes_per_row: raw bytes of one outgoing row; 0 on a tail, or where unknown.
        has_link: its worker speaks to peers at all, dialled or dialling.
        has_data_link: the node's connection to the relay stands; without it no prompt can reach the node.
        codecs: beside raw, how it can pack the rows it hands on and read those it takes.
        recipe: engine and arithmetic; equal on a route's stages unless the model's may be mixed.
        public_key: Ed25519 of the node; tickets name it.
        owner_id: user who earns.
    """

    node_id: str
    layer_begin: int
    layer_end: int
    n_layers: int
    contract_digest: bytes
    exact_class: bytes
    decode_ms_per_layer: float
    prefill_ms_per_layer: float
    tail_ms: float
    kv_cells_free: int
    sessions_free: int
    sessions: int = 0
    carrier: CarrierPolicy = CarrierPolicy.AUTO
    link_address: str = ""
    link_fingerprint: bytes = b""
    latency_ms: float = DEFAULT_LATENCY_MS
    upload_bytes_per_s: int = 0
    context_length: int = 0
    seam_bytes_per_row: int = 0
    has_link: bool = True
    has_data_link: bool = True
    codecs: frozenset[Codec] = frozenset()
    recipe: str = ""
    public_key: bytes = b""
    node_name: str = ""
    owner_id: int = 0

    @property
    def is_tail(self) -> bool:
        """Whether the shard owns the output head."""
        return self.layer_end == self.n_layers

    @property
    def is_dialable(self) -> bool:
        """Whether a peer could connect to the node."""
        return bool(self.link_address) and self.carrier is not CarrierPolicy.RELAY

    @property
    def carrier_class(self) -> CarrierClass:
        """What decides how peers reach the node."""
        return CarrierClass(self.carrier, self.is_dialable, self.has_link)

    @property
    def decode_ms(self) -> float:
        """One row through the shard, under its present load."""
        return self.layers_ms + (self.tail_ms if self.is_tail else 0.0) * self._load

    @property
    def layers_ms(self) -> float:
        """The same without norm and output head."""
        return (self.layer_end - self.layer_begin) * self.decode_ms_per_layer * self._load

    @property
    def prefill_ms(self) -> float:
        """One prompt row through the shard, under its present load; only one row of a prompt needs the output head."""
        return (self.layer_end - self.layer_begin) * self.prefill_ms_per_layer * self._load

    def with_opened(self, stages: int) -> Offer:
        """The offer, with stages that have been opened on its node since the node's last report."""
        unreported = stages - self.sessions
        if unreported <= 0:
            return self
        free = max(0, self.sessions_free - unreported)
        return replace(self, sessions=self.sessions + unreported, sessions_free=free)

    @property
    def _load(self) -> float:
        return 1.0 + LOAD_PER_SESSION * self.sessions


@cache
def carrier_between(sender: CarrierClass, receiver: CarrierClass) -> Hop | None:
    """How two nodes can exchange rows, or None where neither way is allowed.

    Direct needs links at both ends and one end that may be dialled, whichever side it is; frames flow both ways once a
    connection stands.
    """
    policies = (sender.policy, receiver.policy)
    have_links = sender.has_link and receiver.has_link
    if CarrierPolicy.RELAY not in policies and have_links and (sender.is_dialable or receiver.is_dialable):
        return Hop.DIRECT
    return None if CarrierPolicy.DIRECT in policies else Hop.RELAY


def hop_between(sender: Offer, receiver: Offer) -> Hop | None:
    """How two stages exchange rows: within the node they share, or as their nodes can."""
    if sender.node_id == receiver.node_id:
        return Hop.LOCAL
    return carrier_between(sender.carrier_class, receiver.carrier_class)
