"""When each stage of a route was last heard of.

Invariants: pure; a stage is reported only when its state changes. While nothing is expected of a stage it is not late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.generation.progress import StageHealthChanged
from meshnet.openai.telemetry import StageState

if TYPE_CHECKING:
    from collections.abc import Iterable


class StageBook:
    """Health of the stages of one attempt. Times: monotonic seconds."""

    def __init__(self, n_stages: int, late_s: float, now_s: float) -> None:
        self._late_s = late_s
        self._heard_at_s = [now_s] * n_stages
        self._states = [StageState.OK] * n_stages
        self._absent: set[int] = set()
        self._changes: list[StageHealthChanged] = []

    def changes(self) -> list[StageHealthChanged]:
        """What changed since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def hear(self, stages: Iterable[int], now_s: float) -> None:
        """These stages have just done something."""
        for stage in stages:
            if 0 <= stage < len(self._states):
                self._heard_at_s[stage] = now_s
                self._absent.discard(stage)
                self._set(stage, StageState.OK)

    def note(self, stage: int, state: StageState) -> None:
        """Something else tells the state of a stage."""
        if 0 <= stage < len(self._states):
            self._set(stage, state)

    def note_absent(self, stage: int) -> None:
        """The stage's node has left the site; its session may live on, until it is heard or a deadline passes."""
        self.note(stage, StageState.LATE)
        self._absent.add(stage)

    def tick(self, now_s: float) -> None:
        """Call those late that have not been heard of."""
        for stage, heard_at_s in enumerate(self._heard_at_s):
            if now_s - heard_at_s >= self._late_s:
                self._set(stage, StageState.LATE)

    def next_deadline_s(self) -> float | None:
        """When a stage will next be late."""
        waits = [
            heard_at_s + self._late_s
            for heard_at_s, state in zip(self._heard_at_s, self._states, strict=True)
            if state is StageState.OK
        ]
        return min(waits, default=None)

    def most_silent(self, owing: int) -> int:
        """Whom a silence is laid to: a stage whose node has left, else the one unheard for the longest.

        Args:
            owing: the stage that owes the next word; the one of equals. A token was everybody's work, so that after
                one all are equal, though only the tail speaks to the Gateway.
        """
        return min(
            range(len(self._heard_at_s)),
            key=lambda stage: (stage not in self._absent, self._heard_at_s[stage], stage != owing, stage),
        )

    def _set(self, stage: int, state: StageState) -> None:
        if self._states[stage] not in {state, StageState.LOST}:
            self._states[stage] = state
            self._changes.append(StageHealthChanged(stage, state))
