"""How long a generation may take to begin, and how long it may be silent once it runs.

Invariants: pure; one of these deadlines ends every wait of a running route. A stage's deadline for a step passes before
that of the reader (the Gateway, or a node's own API). So the stage that knows the stage at fault reports first. Source:
docs/wire.md, Credits and Time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshnet.constants import GATEWAY_GRACE_S

# A node measures its step time alone; under load or on a hot machine a step takes several times as long.
_PATIENCE: Final = 10.0

# Time for tokenising a prompt: waiting for a turn, loading the vocabulary, rendering and tokenising.
TOKENISE_TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class GenerationDeadlines:
    """The time limits of one generation, in seconds.

    Attributes:
        step_min_s: the shortest time limit that a step may have on a stage.
        step_max_s: the longest time limit that a step may have on a stage.
        margin_s: the Gateway, or a node's own API, waits this much longer than the stages' time limits allow.
        idle_s: a stage frees a session if it hears nothing of it for this long.
        grace_s: if its window of tokens is full, the tail waits this long for an acknowledgement. Then it fails.
        ack_delay_s: a token is acknowledged at most this long after it was taken.
        telling_s: a stage gives a step up this long before the step's time limit, so that its error arrives in time.
    """

    step_min_s: float = 8.0
    step_max_s: float = 40.0
    margin_s: float = 2.0
    idle_s: float = 60.0
    grace_s: float = GATEWAY_GRACE_S
    ack_delay_s: float = 0.25
    telling_s: float = 0.25

    def step_limit_s(self, expected_ms: float) -> float:
        """Return a step's time limit in seconds: ten times `expected_ms`, cut to `step_min_s` and `step_max_s`."""
        return min(self.step_max_s, max(self.step_min_s, _PATIENCE * expected_ms / 1000))

    @property
    def keepalive_s(self) -> float:
        """Seconds between two keepalive messages, which tell the stages that the session still lives."""
        return self.idle_s / 3
