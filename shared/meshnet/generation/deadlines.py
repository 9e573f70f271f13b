"""How long a generation may take to begin, and how long it may be silent once it runs.

Invariants: pure; one of these deadlines ends every wait of a running route. A stage's own step deadline passes before
its reader's, so that the stage that knows the culprit reports first. Source: docs/wire.md, Credits and Time.
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
    """Limits in seconds.

    Attributes:
        step_min_s: the shortest deadline of a step.
        step_max_s: the longest deadline of a step.
        margin_s: how much later the reader's own deadline passes than a stage's.
        idle_s: if a session is silent for this long, its stages free it.
        grace_s: how long the tail waits for an acknowledgement if its window is full.
        ack_delay_s: a token is acknowledged at most this long after its reader took it.
        telling_s: how much sooner than a step's deadline stages give up, so that their failure reaches the client in
            time.
    """

    step_min_s: float = 8.0
    step_max_s: float = 40.0
    margin_s: float = 2.0
    idle_s: float = 60.0
    grace_s: float = GATEWAY_GRACE_S
    ack_delay_s: float = 0.25
    telling_s: float = 0.25

    def step_limit_s(self, expected_ms: float) -> float:
        """Return the longest time that a stage may take for a frame if its own figures say `expected_ms`."""
        return min(self.step_max_s, max(self.step_min_s, _PATIENCE * expected_ms / 1000))

    @property
    def keepalive_s(self) -> float:
        """How often a silent stage is told that the session still lives."""
        return self.idle_s / 3
