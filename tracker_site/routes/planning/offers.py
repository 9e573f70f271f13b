"""The offer of one loaded shard: how fast the shard is, and how other nodes and the relay reach its node.

Invariant: pure values. Every figure is a node's own measurement and therefore a claim. A false figure costs speed,
never correctness, because the boundary contracts of all stages are compared before rows are sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from meshnet.shard_facts import Carrier

if TYPE_CHECKING:
    from meshnet.shard_facts import NodeReach, ShardFigures, ShardIdentity

# One-way time between a node and the site if it was not measured yet, in ms: a home line in the same region.
DEFAULT_LATENCY_MS: Final = 10.0

# Time that the relay itself adds to a hop, in ms: two socket reads and writes and one event loop turn.
RELAY_HOP_MS: Final = 0.5

# How much slower a step gets for each session that the shard already serves. Rows of several sessions share one batch,
# so it is far from 1; its main work is to send new sessions to idle nodes.
LOAD_PER_SESSION: Final = 0.1


class Hop(Enum):
    """How two neighbouring stages exchange rows: within one node, over a direct link, or through the relay."""

    LOCAL = "local"
    DIRECT = "direct"
    RELAY = "relay"


class CarrierClass(NamedTuple):
    """The facts about a node that decide how it can exchange rows with other nodes."""

    carrier: Carrier
    is_dialable: bool
    has_link: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """One loaded shard that a live node offers to routes.

    Attributes:
        node_id: the node's UUID as text.
        reach: how other nodes and the relay reach the node.
        shard: which model and layers are loaded, and how the engine computes.
        figures: how fast the shard is and how much of it is free.
        public_key: the node's Ed25519 public key, 32 bytes; its tickets name it.
        owner_id: id of the user who earns with the node.
    """

    node_id: str
    reach: NodeReach
    shard: ShardIdentity
    figures: ShardFigures
    public_key: bytes = b""
    node_name: str = ""
    owner_id: int = 0

    @property
    def carrier_class(self) -> CarrierClass:
        """The part of `reach` that decides how the node can exchange rows with other nodes."""
        return CarrierClass(self.reach.carrier, self.reach.is_dialable, self.reach.has_link)

    @property
    def latency_ms(self) -> float:
        """One-way latency between the node and the relay, in ms; DEFAULT_LATENCY_MS if it was not measured."""
        return DEFAULT_LATENCY_MS if self.reach.latency_ms is None else self.reach.latency_ms

    @property
    def decode_ms(self) -> float:
        """Time of one decode row through the shard, under its present load, in ms."""
        return self.layers_ms + (self.figures.tail_ms if self.shard.is_tail else 0.0) * self._load

    @property
    def layers_ms(self) -> float:
        """Like `decode_ms`, but without the output norm and the output head."""
        return self._n_layers * self.figures.decode_ms_per_layer * self._load

    @property
    def prefill_ms(self) -> float:
        """Time of one prompt row through the shard, under its present load, in ms.

        The output head is left out, since only the last row of a prompt needs it.
        """
        return self._n_layers * self.figures.prefill_ms_per_layer * self._load

    def with_opened(self, stages: int) -> Offer:
        """Return the offer with at least `stages` sessions in use, as its node's last report may not count all."""
        if stages <= self.figures.sessions:
            return self
        return replace(self, figures=replace(self.figures, sessions=stages))

    @property
    def _n_layers(self) -> int:
        return self.shard.layer_end - self.shard.layer_begin

    @property
    def _load(self) -> float:
        return 1.0 + LOAD_PER_SESSION * self.figures.sessions


@cache
def carrier_between(sender: CarrierClass, receiver: CarrierClass) -> Hop | None:
    """Return how two nodes can exchange rows: directly or through the relay; None if neither is allowed.

    A direct hop needs workers with links at both ends, and at least one end that can be dialled. It does not matter
    which end that is, since a connection carries frames both ways.
    """
    carriers = (sender.carrier, receiver.carrier)
    have_links = sender.has_link and receiver.has_link
    if Carrier.RELAY not in carriers and have_links and (sender.is_dialable or receiver.is_dialable):
        return Hop.DIRECT
    return None if Carrier.DIRECT in carriers else Hop.RELAY


def hop_between(sender: Offer, receiver: Offer) -> Hop | None:
    """Return how two stages exchange rows: LOCAL if they are on one node, otherwise as `carrier_between` says."""
    if sender.node_id == receiver.node_id:
        return Hop.LOCAL
    return carrier_between(sender.carrier_class, receiver.carrier_class)
