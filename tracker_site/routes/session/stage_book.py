"""Tracks the health of a route's stages by the time at which each was last heard of.

Invariants: pure; a stage's state is reported only if it changes. The owner calls `tick` only while rows flow, so a
stage is not late while nothing is expected of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.generation.progress import StageHealthChanged
from meshnet.openai.telemetry import StageState

if TYPE_CHECKING:
    from collections.abc import Iterable


class StageBook:
    """The health of the stages of one attempt. All times are monotonic seconds."""

    def __init__(self, n_stages: int, late_s: float, now_s: float) -> None:
        self._late_s = late_s
        self._heard_at_s = [now_s] * n_stages
        self._states = [StageState.OK] * n_stages
        self._absent: set[int] = set()
        self._changes: list[StageHealthChanged] = []

    def changes(self) -> list[StageHealthChanged]:
        """Return the changes of stages' states since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def hear(self, stages: Iterable[int], now_s: float) -> None:
        """Note that these stages have just been heard of."""
        for stage in stages:
            if 0 <= stage < len(self._states):
                self._heard_at_s[stage] = now_s
                self._absent.discard(stage)
                self._set(stage, StageState.OK)

    def note(self, stage: int, state: StageState) -> None:
        """Set a stage's state for a reason other than its messages or its silence."""
        if 0 <= stage < len(self._states):
            self._set(stage, state)

    def note_absent(self, stage: int) -> None:
        """Note that a stage's node has lost its control connection: the stage is late, but may still compute."""
        self.note(stage, StageState.LATE)
        self._absent.add(stage)

    def tick(self, now_s: float) -> None:
        """Mark the stages as late that have not been heard of for `late_s` seconds."""
        for stage, heard_at_s in enumerate(self._heard_at_s):
            if now_s - heard_at_s >= self._late_s:
                self._set(stage, StageState.LATE)

    def next_deadline_s(self) -> float | None:
        """Return the time at which the next stage will be late; None if all stages are late or lost."""
        waits = [
            heard_at_s + self._late_s
            for heard_at_s, state in zip(self._heard_at_s, self._states, strict=True)
            if state is StageState.OK
        ]
        return min(waits, default=None)

    def most_silent(self, owing: int) -> int:
        """Return the stage to blame for a silence: one with an absent node, otherwise the one silent for the longest.

        Args:
            owing: the stage that must send the next message; it is blamed if several are equally silent. After a token
                all stages are equal, since all have computed it, though only the tail sends it.
        """
        return min(
            range(len(self._heard_at_s)),
            key=lambda stage: (stage not in self._absent, self._heard_at_s[stage], stage != owing, stage),
        )

    def _set(self, stage: int, state: StageState) -> None:
        if self._states[stage] not in {state, StageState.LOST}:
            self._states[stage] = state
            self._changes.append(StageHealthChanged(stage, state))
