"""How long each phase of a route may take.

Invariants: pure; every wait of a route ends by one of these or of a generation's own. Source: docs/wire.md, Credits and
Time.
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
    """Limits in seconds, beside those of every generation.

    Attributes:
        relay_s: until the connection to the relay stands.
        open_s: from asking to every stage's answer, for one attempt.
        late_s: a stage not heard of for this long is called late.
    """

    relay_s: float = 3.0
    open_s: float = 5.0
    late_s: float = 2.0

    def step_s(self, stages: Sequence[Offer], chunking: Chunking) -> float:
        """The longest that one stage may take for one frame, by the slowest stage's or link's own figures."""
        steps_ms = (max(offer.prefill_ms * chunking.rows, offer.decode_ms) for offer in stages)
        return self.step_limit_s(max(chunking.interval_ms, *steps_ms))
