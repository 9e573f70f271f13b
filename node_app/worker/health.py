"""Judges from a running worker's steps whether it still computes.

Invariants: pure. A worker is healthy if steps go through its engine; that its process exists is not enough. While it
computes for sessions it needs no probe; if it is idle, it is probed. If one step never ends, the worker has stalled,
even if it still answers calls.
"""

from __future__ import annotations

from dataclasses import dataclass

MILLISECONDS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """Deadlines and intervals for judging one worker, in seconds.

    Attributes:
        status_interval_s: the worker reports its status this often.
        silence_s: if no status comes for this long, the worker has stalled (stopped, swapped out or deadlocked).
        probe_interval_s: if the engine has made no step for this long, it is probed.
        probe_deadline_s: a probe must be answered within this time.
        step_s: if an engine step lasts longer, the worker has stalled.
    """

    status_interval_s: float = 0.25
    silence_s: float = 4.0
    probe_interval_s: float = 10.0
    probe_deadline_s: float = 15.0
    step_s: float = 60.0


@dataclass(frozen=True, slots=True)
class EngineActivity:
    """The engine's part of a worker's status.

    Attributes:
        steps: number of steps since the worker started.
        is_computing: a step runs now.
        step_age_s: how long ago the present step began or, if none runs, the last one ended.
    """

    steps: int
    is_computing: bool
    step_age_s: float


class ProbeClock:
    """Decides when a worker must be probed. Not thread-safe. All times are of one monotonic clock."""

    def __init__(self, limits: HealthLimits, now_s: float) -> None:
        self._limits = limits
        self._steps = -1
        self._last_proof_s = now_s

    def observe(self, activity: EngineActivity, now_s: float) -> None:
        """Note a status. If the engine made steps since the last status, they prove as much as a probe does."""
        if activity.steps != self._steps:
            self._steps = activity.steps
            self.prove(now_s)

    def prove(self, now_s: float) -> None:
        """Note that a step went through the engine at `now_s`."""
        self._last_proof_s = now_s

    def is_due(self, activity: EngineActivity, now_s: float) -> bool:
        """Whether the engine has been idle for so long that it must be probed."""
        return not activity.is_computing and now_s - self._last_proof_s >= self._limits.probe_interval_s


def is_stuck(activity: EngineActivity, limits: HealthLimits) -> bool:
    """Whether the present engine step lasts longer than `limits.step_s`."""
    return activity.is_computing and activity.step_age_s > limits.step_s
