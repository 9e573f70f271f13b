"""A node's offer to a route: one loaded shard, its measured cost, and how its peers reach it.

Invariant: pure values. Every figure is a node's own measurement and therefore a claim; a false one costs speed, never
correctness, because stages check each other's contracts before a route opens.
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
    """How two neighbouring stages exchange rows."""

    LOCAL = "local"
    DIRECT = "direct"
    RELAY = "relay"


class CarrierClass(NamedTuple):
    """Everything at one end of a hop that decides how rows cross it."""

    carrier: Carrier
    is_dialable: bool
    has_link: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """One shard that a live node would serve.

    Attributes:
        node_id: the node's UUID as text.
        reach: how peers and the relay reach the node.
        shard: what is loaded.
        figures: how fast it is and how much of it is free.
        public_key: Ed25519 of the node, 32 bytes; tickets name it.
        owner_id: user who earns.
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
        """The part of `reach` by which hops are planned."""
        return CarrierClass(self.reach.carrier, self.reach.is_dialable, self.reach.has_link)

    @property
    def latency_ms(self) -> float:
        """One way between the node and the relay, in ms; a usual home line's if nothing was measured."""
        return DEFAULT_LATENCY_MS if self.reach.latency_ms is None else self.reach.latency_ms

    @property
    def decode_ms(self) -> float:
        """One row through the shard, under its present load, in ms."""
        return self.layers_ms + (self.figures.tail_ms if self.shard.is_tail else 0.0) * self._load

    @property
    def layers_ms(self) -> float:
        """The same without norm and output head."""
        return self._n_layers * self.figures.decode_ms_per_layer * self._load

    @property
    def prefill_ms(self) -> float:
        """One prompt row through the shard, under its present load, in ms.

        The output head is left out, since one row of a prompt needs it.
        """
        return self._n_layers * self.figures.prefill_ms_per_layer * self._load

    def with_opened(self, stages: int) -> Offer:
        """Return the offer with stages that have been opened on its node since the node's last report."""
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
    """How two nodes can exchange rows, or None where neither way is allowed.

    Direct needs links at both ends and one end that may be dialled, whichever side it is; frames flow both ways once a
    connection stands.
    """
    carriers = (sender.carrier, receiver.carrier)
    have_links = sender.has_link and receiver.has_link
    if Carrier.RELAY not in carriers and have_links and (sender.is_dialable or receiver.is_dialable):
        return Hop.DIRECT
    return None if Carrier.DIRECT in carriers else Hop.RELAY


def hop_between(sender: Offer, receiver: Offer) -> Hop | None:
    """How two stages exchange rows: within the node they share, or as their nodes can."""
    if sender.node_id == receiver.node_id:
        return Hop.LOCAL
    return carrier_between(sender.carrier_class, receiver.carrier_class)
