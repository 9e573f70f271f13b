"""Computes how long a request takes on a chain of shards, which the planner minimises.

Invariants: pure. The cost is a sum over stages and hops, so that shortest-path search is exact. Prefill is counted as
if stages never computed at the same time. In truth they do, which shortens prefill on long chains, so this cost favours
short chains.

A decode step takes T = sum c_i + sum L_i + L_return: c_i is the compute time of stage i, L_i the time of the hop to
stage i, and L_return the time of the hop from the tail back to the head.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tracker_site.routes.planning.offers import RELAY_HOP_MS, CarrierClass, Hop, Offer, carrier_between

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tracker_site.routes.planning.need import RouteNeed

# Time that a carrier adds to a hop between two nodes, in ms.
CARRIER_MS: Final[Mapping[Hop | None, float]] = {Hop.DIRECT: 0.0, Hop.RELAY: RELAY_HOP_MS}


@cache
def carrier_ms_between(sender: CarrierClass, receiver: CarrierClass) -> float | None:
    """Return the ms that the carrier adds to a hop between such nodes; None if they cannot exchange rows."""
    return CARRIER_MS.get(carrier_between(sender, receiver))


def stage_ms(offer: Offer, need: RouteNeed) -> float:
    """Return the compute time of the whole request on one stage, in ms."""
    return need.expected_tokens * offer.decode_ms + need.prompt_tokens * offer.prefill_ms


def seam_ms(sender: Offer, receiver: Offer) -> float | None:
    """Return the one-way time between two nodes, in ms; None if they cannot exchange rows.

    It is the sum of both nodes' latencies to the relay, even on a direct hop, since the direct way is not measured.
    """
    carrier_ms = carrier_ms_between(sender.carrier_class, receiver.carrier_class)
    return None if carrier_ms is None else sender.latency_ms + receiver.latency_ms + carrier_ms


def route_ms(stages: Sequence[Offer], need: RouteNeed) -> float | None:
    """Return the expected time of the request on `stages`, in ms; None if some neighbours cannot exchange rows.

    Between adjacent shards of one node no time is counted. Every decode step passes each seam and returns from the tail
    to the head. If the route has several nodes, this way back counts as a hop between two nodes, even if head and tail
    are on the same node.
    """
    seams = [pair for pair in pairwise(stages) if pair[0].node_id != pair[1].node_id]
    if seams:
        seams.append((stages[-1], stages[0]))
    hops = [seam_ms(sender, receiver) for sender, receiver in seams]
    passable = [one for one in hops if one is not None]
    if len(passable) < len(hops):
        return None
    return sum(stage_ms(offer, need) for offer in stages) + need.expected_tokens * sum(passable)
