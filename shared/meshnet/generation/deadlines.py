"""How long a generation may take to begin and, once it runs, be silent.

Invariants: pure; every wait of a running route ends by one of these. A stage's own step deadline passes before that of
whoever reads it, so that the stage that knows who is at fault speaks first. Source: docs/wire.md, Credits and Time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshnet.constants import GATEWAY_GRACE_S

# A node's measurement was taken alone; under load and on a warm machine a step takes several times as long.
_PATIENCE: Final = 10.0

# Loading the vocabulary at first, rendering and tokenising, waiting for a turn included.
TOKENISE_TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class GenerationDeadlines:
    """Limits in seconds.

    Attributes:
        step_min_s: a step's deadline is never shorter than this,
        step_max_s: nor longer than this.
        margin_s: how much later the reader's own deadline passes than a stage's.
        idle_s: a stage frees a session that is silent for this long.
        grace_s: how long the tail waits for an acknowledgement with a full window.
        ack_delay_s: a token is acknowledged at most this long after its reader took it.
        telling_s: how much sooner than a step's deadline stages give up, so that the client has their word within it.
    """

    step_min_s: float = 8.0
    step_max_s: float = 40.0
    margin_s: float = 2.0
    idle_s: float = 60.0
    grace_s: float = GATEWAY_GRACE_S
    ack_delay_s: float = 0.25
    telling_s: float = 0.25

    def step_limit_s(self, expected_ms: float) -> float:
        """The longest that one stage may take for a frame that its own figures say takes `expected_ms`."""
        return min(self.step_max_s, max(self.step_min_s, _PATIENCE * expected_ms / 1000))

    @property
    def keepalive_s(self) -> float:
        """How often silent stages are told that the session lives."""
        return self.idle_s / 3
