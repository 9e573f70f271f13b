"""How long each phase of a route may take.

Invariants: pure; every wait of a route ends by one of these. A stage's own step deadline passes before the Gateway's,
so that the stage that knows who is at fault speaks first. Source: docs/wire.md, Credits and Time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.constants import GATEWAY_GRACE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracker_site.routes.offers import Offer

# A node's measurement was taken alone; under load and on a warm machine a step takes several times as long.
_PATIENCE: Final = 10.0


@dataclass(frozen=True, slots=True)
class RouteDeadlines:
    """Limits in seconds.

    Attributes:
        relay_s: until the connection to the relay stands.
        open_s: from asking to every stage's answer, for one attempt.
        step_min_s: a step's deadline is never shorter than this,
        step_max_s: nor longer than this.
        margin_s: how much later the Gateway's own deadline passes than a stage's.
        idle_s: a stage frees a session that is silent for this long.
        grace_s: how long the tail waits for an acknowledgement with a full window.
        late_s: a stage not heard of for this long is called late.
        ack_delay_s: a token is acknowledged at most this long after its reader took it.
    """

    relay_s: float = 3.0
    open_s: float = 5.0
    step_min_s: float = 8.0
    step_max_s: float = 40.0
    margin_s: float = 2.0
    idle_s: float = 60.0
    grace_s: float = GATEWAY_GRACE_S
    late_s: float = 2.0
    ack_delay_s: float = 0.25

    def step_s(self, stages: Sequence[Offer], chunk_rows: int) -> float:
        """The longest that one stage may take for one frame, by the slowest stage's own figures."""
        slowest_ms = max(max(offer.prefill_ms * chunk_rows, offer.decode_ms) for offer in stages)
        return min(self.step_max_s, max(self.step_min_s, _PATIENCE * slowest_ms / 1000))

    @property
    def keepalive_s(self) -> float:
        """How often silent stages are told that the session lives."""
        return self.idle_s / 3
