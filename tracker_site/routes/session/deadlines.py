"""Time limits of each phase of a route.

Invariants: pure; every wait of a route ends by one of these limits or by a limit of its generation.
Source: docs/wire.md, Credits and Time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.generation.deadlines import GenerationDeadlines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.generation.chunking import Chunking
    from tracker_site.routes.planning.offers import Offer


@dataclass(frozen=True, slots=True)
class RouteDeadlines(GenerationDeadlines):
    """Time limits of a route in seconds, in addition to those of `GenerationDeadlines`.

    Attributes:
        relay_s: time until the relay is connected.
        open_s: time to plan a route, and then the same time again until every stage of it has answered.
        late_s: a stage counts as late if nothing was heard of it for this long.
    """

    relay_s: float = 3.0
    open_s: float = 5.0
    late_s: float = 2.0

    def step_s(self, stages: Sequence[Offer], chunking: Chunking) -> float:
        """Return the seconds that a stage may take for one frame, by the figures of the slowest stage or link."""
        steps_ms = (max(offer.prefill_ms * chunking.rows, offer.decode_ms) for offer in stages)
        return self.step_limit_s(max(chunking.interval_ms, *steps_ms))
