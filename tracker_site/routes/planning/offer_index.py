"""Arranges the offers of one model in an index, in which routes for many requests can be searched.

Invariants: pure; an index does not change once it is built. A group holds the offers that may serve one route together.
A segment is a run of adjacent shards on one node. A bucket holds the segments of one layer range and one carrier class,
the fastest in decode first, so that a search may stop as soon as no later segment can win.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tracker_site.routes.planning.need import RouteNeed
    from tracker_site.routes.planning.offers import CarrierClass, Offer

# Most shards of one node that are considered for one model; more would only cost search time.
SHARDS_PER_NODE_MAX: Final = 8


class Segment:
    """Adjacent shards of one node, with the figures that the search compares.

    Attributes:
        decode_ms: time of one decode row through all of the shards.
        prefill_ms: time of one prompt row through all of the shards.
        hops_ms: latency into the node plus latency out of it; part of each decode step if the route has other nodes.
    """

    __slots__ = ("decode_ms", "hops_ms", "offers", "prefill_ms")

    def __init__(self, offers: tuple[Offer, ...]) -> None:
        self.offers: Final = offers
        self.decode_ms: Final = sum(offer.decode_ms for offer in offers)
        self.prefill_ms: Final = sum(offer.prefill_ms for offer in offers)
        self.hops_ms: Final = offers[0].latency_ms + offers[-1].latency_ms

    def under(self, need: RouteNeed) -> Segment:
        """Return the segment with figures that count the stages that this process has opened on its node."""
        opened = need.opened.get(self.offers[0].node_id, 0)
        if not opened:
            return self
        offers = tuple(offer.with_opened(opened) for offer in self.offers)
        return self if all(map(is_, offers, self.offers)) else Segment(offers)

    def admits(self, need: RouteNeed) -> bool:
        """Whether every shard of the segment is admissible for the request."""
        return all(is_admissible(offer, need) for offer in self.offers)


def is_admissible(offer: Offer, need: RouteNeed) -> bool:
    """Whether the shard has room for the request, and a route may use the shard and its node.

    The shard must begin and end at legal cuts. Its node must be reachable and not excluded.
    """
    return (
        offer.with_opened(need.opened.get(offer.node_id, 0)).figures.sessions_free > 0
        and offer.figures.kv_cells_free >= need.kv_cells
        and offer.reach.data_connected
        and offer.node_id not in need.excluded_node_ids
        and need.allows_range(offer.shard.layer_begin, offer.shard.layer_end)
    )


class Candidate(NamedTuple):
    """The best admissible segment of a bucket for one request, and its cost."""

    cost_ms: float
    segment: Segment


class Bucket:
    """The segments of one layer range and carrier class, sorted by decode time. `with_hops`: it includes `hops_ms`."""

    __slots__ = ("_by_decode", "_prefill_floor_ms", "_with_hops")

    def __init__(self, segments: Iterable[Segment], *, with_hops: bool) -> None:
        self._with_hops = with_hops
        keyed = sorted(((self._step_ms(one), one) for one in segments), key=lambda pair: pair[0])
        self._by_decode: Final = keyed
        self._prefill_floor_ms: Final = min(segment.prefill_ms for _, segment in keyed)

    def _step_ms(self, segment: Segment) -> float:
        return segment.decode_ms + (segment.hops_ms if self._with_hops else 0.0)

    def cheapest(self, need: RouteNeed) -> Candidate | None:
        """Return the admissible segment with the smallest cost, or None.

        Stages that were opened since a node's last report only add to its cost. So the reported decode times are lower
        bounds, and the search may stop early.
        """
        best: Candidate | None = None
        floor_ms = need.prompt_tokens * self._prefill_floor_ms
        for step_ms, segment in self._by_decode:
            decode_ms = need.expected_tokens * step_ms
            if best is not None and decode_ms + floor_ms >= best.cost_ms:
                break
            now = segment.under(need)
            if now is not segment:
                decode_ms = need.expected_tokens * self._step_ms(now)
            cost_ms = decode_ms + need.prompt_tokens * now.prefill_ms
            if (best is None or cost_ms < best.cost_ms) and now.admits(need):
                best = Candidate(cost_ms, now)
        return best


@dataclass(slots=True)
class ContractGroup:
    """Offers that may serve one route together.

    Attributes:
        whole: buckets of the segments that cover every layer, so that each is a route by itself.
        chains: buckets of all other segments, by first layer, then by (one past the last layer, carrier class).
    """

    n_layers: int
    whole: list[Bucket] = field(default_factory=list)
    chains: dict[int, dict[tuple[int, CarrierClass], Bucket]] = field(default_factory=dict)


def _runs(shards: list[Offer]) -> Iterator[tuple[Offer, ...]]:
    """Yield every run of adjacent shards of one node; a single shard is a run too."""
    by_begin: dict[int, list[Offer]] = defaultdict(list)
    for offer in shards[:SHARDS_PER_NODE_MAX]:
        by_begin[offer.shard.layer_begin].append(offer)
    open_runs: list[tuple[Offer, ...]] = [(offer,) for offers in by_begin.values() for offer in offers]
    while open_runs:
        run = open_runs.pop()
        yield run
        open_runs.extend((*run, follower) for follower in by_begin[run[-1].shard.layer_end])


def _build_group(n_layers: int, offers: list[Offer]) -> ContractGroup:
    by_node: dict[str, list[Offer]] = defaultdict(list)
    for offer in offers:
        by_node[offer.node_id].append(offer)
    buckets: dict[tuple[int, int, CarrierClass], list[Segment]] = defaultdict(list)
    for shards in by_node.values():
        carrier_class = shards[0].carrier_class
        for run in _runs(shards):
            buckets[run[0].shard.layer_begin, run[-1].shard.layer_end, carrier_class].append(Segment(run))
    group = ContractGroup(n_layers)
    for (layer_begin, layer_end, carrier_class), segments in buckets.items():
        if (layer_begin, layer_end) == (0, n_layers):
            group.whole.append(Bucket(segments, with_hops=False))
        else:
            group.chains.setdefault(layer_begin, {})[layer_end, carrier_class] = Bucket(segments, with_hops=True)
    return group


class GroupKey(NamedTuple):
    """The facts that all offers of one group share. A fact that may differ within the group is empty."""

    n_layers: int
    contract_digest: bytes
    exact_class: bytes
    recipe: str


class OfferIndex:
    """Offers of one model, grouped by the facts that must be equal on a route.

    Attributes:
        offers: all offers, usable or not; they are read only to explain why a request has no route.
        is_exact: whether groups are also split by exact class.
        mixes_recipes: whether a group may hold several recipes; never if `is_exact`.
    """

    def __init__(self, offers: Iterable[Offer], *, is_exact: bool, mixes_recipes: bool = False) -> None:
        self.offers: Final = tuple(offers)
        self.is_exact: Final = is_exact
        self.mixes_recipes: Final = mixes_recipes and not is_exact
        members: dict[GroupKey, list[Offer]] = defaultdict(list)
        for offer in self.offers:
            shard = offer.shard
            if 0 <= shard.layer_begin < shard.layer_end <= shard.n_layers:
                members[self.group_key(offer)].append(offer)
        self.groups: Final = [_build_group(key.n_layers, group) for key, group in members.items()]

    def group_key(self, offer: Offer) -> GroupKey:
        """Return the facts of an offer that must be equal on all stages of one route."""
        shard = offer.shard
        exact_class = shard.exact_class if self.is_exact else b""
        return GroupKey(shard.n_layers, shard.contract_digest, exact_class, "" if self.mixes_recipes else shard.recipe)
