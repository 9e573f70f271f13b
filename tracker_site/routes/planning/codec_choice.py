"""Chooses the codec of each seam: raw, unless the link would slow the route and the model allows packing.

Invariants: pure. Rows are raw if the route is exact, the model allows no other codec, or the two ends have no other
codec in common. Otherwise the most faithful allowed codec that is fast enough is chosen; if none is fast enough, the
one with the smallest rows.
Source: docs/adr/0015-codecs-where-the-link-is-slow.md.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from meshnet.frame import Codec
from tracker_site.routes.planning.edges import F32_BYTES
from tracker_site.routes.planning.need import EXPECTED_TOKENS_MAX
from tracker_site.routes.planning.offers import Hop, hop_between

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tracker_site.routes.planning.offers import Offer
    from tracker_site.routes.planning.request import RouteRequest

# Codecs from the most faithful to the smallest.
BY_FAITHFULNESS: Final = (Codec.RAW, Codec.BF16, Codec.Q8_0)
# A link is fast enough if a row takes at most this part of the slowest stage's time for a row.
LINK_SHARE_MAX: Final = 0.1
# Assumed if the volunteer gives no upload rate: 10 Mbit/s, as slower home lines have.
DEFAULT_UPLOAD_BYTES_PER_S: Final = 1_250_000

_MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True)
class SeamLoad:
    """How much one seam must carry for a request, and how fast its link and the route are.

    Attributes:
        row_bytes: bytes of a raw row; one row crosses the seam for each token.
        link_bytes_per_s: rate of the link; None if rows do not leave the machine.
        stage_ms: mean time of the route's slowest stage for a row, over prompt and answer.
    """

    row_bytes: int
    link_bytes_per_s: float | None
    stage_ms: float

    def link_ms(self, codec: Codec) -> float:
        """Return the time in ms that one row, packed with `codec`, takes on the link."""
        if self.link_bytes_per_s is None:
            return 0.0
        return codec.packed_bytes(self.row_bytes // F32_BYTES) / self.link_bytes_per_s * _MS_PER_S


def choose_codec(load: SeamLoad, allowed: Collection[Codec]) -> Codec:
    """Return the codec of one seam: raw or one of `allowed`, which both ends must know."""
    candidates = [codec for codec in BY_FAITHFULNESS if codec is Codec.RAW or codec in allowed]
    fast_enough = (codec for codec in candidates if load.link_ms(codec) <= LINK_SHARE_MAX * load.stage_ms)
    return next(fast_enough, candidates[-1])


def codecs_up_to(coarsest: Codec) -> frozenset[Codec]:
    """Return `coarsest` and all codecs that are more faithful."""
    return frozenset(BY_FAITHFULNESS[: BY_FAITHFULNESS.index(coarsest) + 1])


def seam_codecs(request: RouteRequest, stages: Sequence[Offer]) -> tuple[Codec, ...]:
    """Return the codec of every seam in route order; there is one seam fewer than stages."""
    allowed = frozenset({Codec.RAW}) if request.is_exact else codecs_up_to(request.coarsest_codec)
    stage_ms = _slowest_ms(request, stages)
    return tuple(
        choose_codec(
            SeamLoad(sender.shard.seam_bytes_per_row, _link_bytes_per_s(sender, receiver), stage_ms),
            allowed & sender.shard.codecs & receiver.shard.codecs,
        )
        for sender, receiver in pairwise(stages)
    )


def _slowest_ms(request: RouteRequest, stages: Sequence[Offer]) -> float:
    prompt, answer = len(request.prompt_tokens), min(request.max_tokens, EXPECTED_TOKENS_MAX)
    return max((prompt * one.prefill_ms + answer * one.decode_ms) / (prompt + answer) for one in stages)


def _link_bytes_per_s(sender: Offer, receiver: Offer) -> float | None:
    """Return the sender's upload rate, since volunteers' lines download faster; None if rows stay on the machine."""
    hop = hop_between(sender, receiver)
    if hop is Hop.LOCAL or (hop is Hop.DIRECT and _is_loopback(sender) and _is_loopback(receiver)):
        return None
    return sender.reach.upload_bytes_per_s or DEFAULT_UPLOAD_BYTES_PER_S


def _is_loopback(offer: Offer) -> bool:
    """Return True if the node's link address can be reached only from its own machine."""
    host = offer.reach.link_address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
