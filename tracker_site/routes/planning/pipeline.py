"""Cuts a prompt into chunks for a planned route, by the figures that its nodes reported.

Invariants: pure; every figure is a node's claim. A false figure costs speed, but no more memory than an honest one,
since windows are bounded. As in the planner, the time of a link is the sum of both nodes' latencies to the relay, since
direct links are not measured. Source: `meshnet.generation.chunking`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from meshnet.generation.chunking import (
    Pipeline,
    SeamLink,
    StageTime,
    choose_chunking,
    measured_rows,
    split_step_ms,
)
from meshnet.v1 import session_pb2
from tracker_site.routes.planning.cost import seam_ms
from tracker_site.routes.planning.edges import F32_BYTES
from tracker_site.routes.planning.offers import RELAY_HOP_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.frame import Codec
    from meshnet.generation.chunking import Chunking
    from tracker_site.routes.planning.offers import Offer

# A seam whose width the node did not report: the widest known (deepseek4, 4 streams of 7168 f32).
UNKNOWN_SEAM_BYTES_PER_ROW: Final = 4 * 7168 * 4


def plan_chunking(stages: Sequence[Offer], codecs: Sequence[Codec], prompt_tokens: int, *, is_exact: bool) -> Chunking:
    """Return the size of a prompt's chunks and the window of the edge to each stage. `codecs`: one for each seam."""
    times = tuple(_time(offer) for offer in stages)
    # The relay is beside the site, where prompts come from.
    prompt_link = SeamLink(0, stages[0].latency_ms + RELAY_HOP_MS)
    pairs = zip(pairwise(stages), codecs, strict=True)
    links = (prompt_link, *(_seam(sender, receiver, codec) for (sender, receiver), codec in pairs))
    return choose_chunking(Pipeline(prompt_tokens, times, links), is_exact=is_exact)


def _time(offer: Offer) -> StageTime:
    rows_max = _ubatch_rows(offer.shard.exact_class)
    rows = measured_rows(rows_max, offer.shard.context_length)
    fixed_ms, row_ms = split_step_ms(offer.layers_ms, offer.prefill_ms * rows, rows)
    return StageTime(fixed_ms, row_ms, rows_max, offer.node_id)


def _seam(sender: Offer, receiver: Offer, codec: Codec) -> SeamLink:
    row_bytes = codec.packed_bytes((sender.shard.seam_bytes_per_row or UNKNOWN_SEAM_BYTES_PER_ROW) // F32_BYTES)
    if sender.node_id == receiver.node_id:
        return SeamLink(row_bytes)
    return SeamLink(row_bytes, seam_ms(sender, receiver) or 0.0, sender.reach.upload_bytes_per_s or None)


def _ubatch_rows(exact_class: bytes) -> int:
    """Return the number of rows that the engine takes as one batch; 0 if the node does not say."""
    try:
        return session_pb2.ExactClass.FromString(exact_class).ubatch
    except DecodeError:
        return 0
