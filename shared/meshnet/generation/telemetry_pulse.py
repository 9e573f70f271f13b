"""Decides when a client is sent a snapshot of its generation's telemetry.

Invariants: pure. A change of phase is sent at once, and other changes at most ten times a second. If nothing changes, a
snapshot is still sent every half second, so that a client can tell a slow generation from a broken connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from meshnet.generation.telemetry_board import TelemetryBoard
    from meshnet.openai.telemetry import Phase

CHANGE_INTERVAL_S: Final = 0.1
STEADY_INTERVAL_S: Final = 0.5


class TelemetryPulse:
    """Decides for one client when its next telemetry snapshot is due."""

    def __init__(self) -> None:
        self._shown_phase: Phase | None = None
        self._shown_version = -1
        self._shown_s = float("-inf")

    def wait_s(self, board: TelemetryBoard, now_s: float) -> float:
        """Return the seconds until the next snapshot is due; if 0 or less, it is due now."""
        if board.phase is not self._shown_phase:
            return 0.0
        interval_s = CHANGE_INTERVAL_S if board.version != self._shown_version else STEADY_INTERVAL_S
        return self._shown_s + interval_s - now_s

    def show(self, board: TelemetryBoard, now_s: float) -> None:
        """Record that a snapshot of the board is sent now."""
        self._shown_phase = board.phase
        self._shown_version = board.version
        self._shown_s = now_s
