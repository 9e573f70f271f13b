"""Explains to clients, administrators and the log why a request has no route.

Invariants: pure. Reasons are tried from the simplest to the subtlest; the first that holds is given.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from meshnet.artifact.model.cuts import wrong_cuts
from meshnet.errors import RouteError
from meshnet.failure_codes import FailureCode
from tracker_site.routes.planning.offer_index import OfferIndex, is_admissible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracker_site.routes.planning.need import RouteNeed
    from tracker_site.routes.planning.offer_index import GroupKey
    from tracker_site.routes.planning.offers import Offer

LayerRange = tuple[int, int]
# Number of recipes that a message lists; bounded, since nodes name them.
RECIPES_SHOWN: Final = 4


class NoRouteReason(StrEnum):
    """Reasons for which no route can be planned."""

    MISSING_LAYERS = "missing_layers"
    ILLEGAL_CUTS = "illegal_cuts"
    BUSY_LAYERS = "busy_layers"
    CONTRACTS_DIFFER = "contracts_differ"
    RANGES_DO_NOT_MEET = "ranges_do_not_meet"
    NO_CARRIER = "no_carrier"


class NoRouteError(RouteError):
    """No chain of live nodes can serve the request now.

    Attributes:
        reason: the first reason that holds.
        layers: the half-open layer ranges that no usable node serves; empty if the reason is another one.
    """

    def __init__(self, reason: NoRouteReason, message: str, layers: Sequence[LayerRange] = ()) -> None:
        code = FailureCode.CONTRACT_MISMATCH if reason is NoRouteReason.CONTRACTS_DIFFER else "no_route"
        super().__init__(code, "No route", message)
        self.reason = reason
        self.layers = tuple(layers)


def missing_ranges(offers: Iterable[Offer], n_layers: int) -> list[LayerRange]:
    """Return the half-open ranges of `[0, n_layers)` that no offer covers."""
    missing: list[LayerRange] = []
    covered_to = 0
    for layer_begin, layer_end in sorted((offer.shard.layer_begin, offer.shard.layer_end) for offer in offers):
        if layer_begin > covered_to:
            missing.append((covered_to, layer_begin))
        covered_to = max(covered_to, layer_end)
    if covered_to < n_layers:
        missing.append((covered_to, n_layers))
    return missing


def illegal_cuts(offers: Iterable[Offer], need: RouteNeed) -> list[int]:
    """Return the layers at which offered shards begin or end although the model may not be cut there."""
    ends = {end for offer in offers for end in (offer.shard.layer_begin, offer.shard.layer_end)}
    return sorted(wrong_cuts(ends, need.n_layers, need.legal_cuts))


def _describe(layers: Sequence[LayerRange]) -> str:
    return ", ".join(f"{begin}-{end - 1}" for begin, end in layers)


def _has_chain(offers: Sequence[Offer], n_layers: int) -> bool:
    """Return True if some of the shards follow each other without a gap from layer 0 to the last layer."""
    reached = {0}
    for offer in sorted(offers, key=lambda one: one.shard.layer_begin):
        if offer.shard.layer_begin in reached:
            reached.add(offer.shard.layer_end)
    return n_layers in reached


def _disagreement(index: OfferIndex, offers: Iterable[Offer]) -> str:
    message = "The nodes that together cover all layers do not agree on the model, its settings or its exact class."
    recipes = sorted({offer.shard.recipe for offer in offers})
    if index.mixes_recipes or len(recipes) == 1:
        return message
    shown = ", ".join(recipe or "unnamed" for recipe in recipes[:RECIPES_SHOWN])
    return f"{message} They compute by different recipes ({shown}), which this route does not mix."


def explain_no_route(index: OfferIndex, need: RouteNeed) -> NoRouteError:
    """Return the error that says why the offers in `index` allow no route for `need`."""
    fitting = [offer for offer in index.offers if offer.shard.n_layers == need.n_layers]
    missing = missing_ranges(fitting, need.n_layers)
    if missing:
        message = f"No live node serves layers {_describe(missing)} of {need.n_layers}."
        return NoRouteError(NoRouteReason.MISSING_LAYERS, message, missing)
    legal = [offer for offer in fitting if need.allows_range(offer.shard.layer_begin, offer.shard.layer_end)]
    uncut = missing_ranges(legal, need.n_layers)
    if uncut:
        cuts = ", ".join(str(cut) for cut in illegal_cuts(fitting, need))
        message = (
            f"Layers {_describe(uncut)} are only served in ranges that begin or end at layer {cuts}, where this model "
            "cannot be cut."
        )
        return NoRouteError(NoRouteReason.ILLEGAL_CUTS, message, uncut)
    admissible = [offer for offer in fitting if is_admissible(offer, need)]
    busy = missing_ranges(admissible, need.n_layers)
    if busy:
        message = f"Every node that serves layers {_describe(busy)} is full, unreachable or has refused this request."
        return NoRouteError(NoRouteReason.BUSY_LAYERS, message, busy)
    groups: dict[GroupKey, list[Offer]] = defaultdict(list)
    for offer in admissible:
        groups[index.group_key(offer)].append(offer)
    complete = [group for group in groups.values() if not missing_ranges(group, need.n_layers)]
    if not complete:
        return NoRouteError(NoRouteReason.CONTRACTS_DIFFER, _disagreement(index, admissible))
    if not any(_has_chain(group, need.n_layers) for group in complete):
        return NoRouteError(NoRouteReason.RANGES_DO_NOT_MEET, "All layers are served, but in ranges that do not meet.")
    message = "Neighbouring nodes allow direct links only, and none can be dialled."
    return NoRouteError(NoRouteReason.NO_CARRIER, message)
