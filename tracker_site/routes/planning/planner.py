"""Chooses the nodes of a route: the fastest chain of shards that covers every layer exactly once.

Invariants: pure. The stages of a plan are whole, adjacent shards from layer 0 to the last layer. They have one contract
digest, one recipe unless recipes may be mixed, and one exact class if the request is exact. They begin and end at legal
cuts. Every stage can send rows to the next stage, and the tail can send tokens to the head. No other admissible chain
has a smaller `cost.route_ms`. If two chains cost the same, the one with fewer stages wins, so one node beats an equally
fast chain.

The search goes from layer boundary to layer boundary. The cost of a hop depends only on the latency and the carrier
class of its two ends. So the state at a boundary is (carrier class of the head, carrier class of the last stage), and
the work is linear in the offers. Adjacent shards of one node form one segment, so that no hop is counted between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from meshnet.constants import MAX_STAGES
from tracker_site.routes.planning.cost import carrier_ms_between
from tracker_site.routes.planning.no_route import explain_no_route
from tracker_site.routes.planning.offers import CarrierClass, Offer

if TYPE_CHECKING:
    from tracker_site.routes.planning.need import RouteNeed
    from tracker_site.routes.planning.offer_index import ContractGroup, OfferIndex, Segment


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """The stages of one route, head first, and the time in ms that the request is expected to take on them."""

    stages: tuple[Offer, ...]
    estimate_ms: float


class _Path(NamedTuple):
    """A chain of segments that ends at a layer boundary: its last segment and the path before it."""

    cost_ms: float
    n_stages: int
    segment: Segment
    previous: _Path | None

    def is_better_than(self, other: _Path | None) -> bool:
        return other is None or (self.cost_ms, self.n_stages) < (other.cost_ms, other.n_stages)

    def stages(self) -> tuple[Offer, ...]:
        path: _Path | None = self
        segments: list[Segment] = []
        while path is not None:
            segments.append(path.segment)
            path = path.previous
        return tuple(offer for segment in reversed(segments) for offer in segment.offers)


# Best path so far, by (class of the head, class of the last stage).
_Frontier: TypeAlias = dict[tuple[CarrierClass, CarrierClass], _Path]


def _whole(group: ContractGroup, need: RouteNeed) -> _Path | None:
    """Return the best route on a single node; None if no node can serve the request alone."""
    best: _Path | None = None
    for bucket in group.whole:
        candidate = bucket.cheapest(need)
        if candidate is not None:
            path = _Path(candidate.cost_ms, len(candidate.segment.offers), candidate.segment, None)
            best = path if path.is_better_than(best) else best
    return best


def _extend(arrivals: _Frontier, path: _Path, state: tuple[CarrierClass, CarrierClass]) -> None:
    if path.n_stages <= MAX_STAGES and path.is_better_than(arrivals.get(state)):
        arrivals[state] = path


def _advance(
    reached: _Frontier, carrier_class: CarrierClass, segment: Segment, cost_ms: float, need: RouteNeed
) -> _Frontier:
    """Add `segment` to each path of `reached` that can send rows to it; return the best new path for each state."""
    arrivals: _Frontier = {}
    expected_tokens, stages = need.expected_tokens, len(segment.offers)
    # The inner loop of planning: a path is made only if it is the best so far.
    for (head, last), path in reached.items():
        carrier_ms = carrier_ms_between(last, carrier_class)
        n_stages = path.n_stages + stages
        if carrier_ms is None or n_stages > MAX_STAGES:
            continue
        total_ms = path.cost_ms + cost_ms + expected_tokens * carrier_ms
        best = arrivals.get((head, carrier_class))
        if best is None or (total_ms, n_stages) < (best.cost_ms, best.n_stages):
            arrivals[head, carrier_class] = _Path(total_ms, n_stages, segment, path)
    return arrivals


def _close_ring(finished: _Frontier, need: RouteNeed) -> _Path | None:
    """Return the best of the finished paths, with the hop from tail to head added; None if no tail reaches its head."""
    best: _Path | None = None
    for (head, tail), path in finished.items():
        carrier_ms = carrier_ms_between(tail, head)
        if carrier_ms is not None:
            closed = path._replace(cost_ms=path.cost_ms + need.expected_tokens * carrier_ms)
            best = closed if closed.is_better_than(best) else best
    return best


def _chain(group: ContractGroup, need: RouteNeed) -> _Path | None:
    """Return the best route over two or more segments; None if there is none."""
    frontiers: dict[int, _Frontier] = {}
    for layer_begin in sorted(group.chains):
        reached = frontiers.pop(layer_begin, None)
        if reached is None and layer_begin > 0:
            continue
        for (layer_end, carrier_class), bucket in group.chains[layer_begin].items():
            candidate = bucket.cheapest(need)
            if candidate is None:
                continue
            cost_ms, segment = candidate
            if reached is None:
                start = _Path(cost_ms, len(segment.offers), segment, None)
                arrivals: _Frontier = {(carrier_class, carrier_class): start}
            else:
                arrivals = _advance(reached, carrier_class, segment, cost_ms, need)
            frontier = frontiers.setdefault(layer_end, {})
            for state, path in arrivals.items():
                _extend(frontier, path, state)
    return _close_ring(frontiers.get(group.n_layers, {}), need)


def plan_indexed(index: OfferIndex, need: RouteNeed) -> RoutePlan:
    """Return the fastest route for `need` over indexed offers.

    Raises:
        NoRouteError: no chain of offers fits; the error says why.
    """
    best: _Path | None = None
    for group in index.groups:
        if group.n_layers == need.n_layers:
            for path in (_whole(group, need), _chain(group, need)):
                if path is not None and path.is_better_than(best):
                    best = path
    if best is None:
        raise explain_no_route(index, need)
    return RoutePlan(best.stages(), best.cost_ms)
