"""Whether a running worker is still of use, judged from what it does.

Invariants: pure; health means that steps go through the engine, never that a process exists. A worker that is busy with
real rows proves itself and gets no probe; an idle one is probed; one step that never ends is a stall even though the
worker still answers.
"""

from __future__ import annotations

from dataclasses import dataclass

MILLISECONDS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """Deadlines of one worker, in seconds.

    Attributes:
        status_interval_s: how often the worker reports by itself.
        silence_s: without a report for this long it is stalled (stopped, swapped out, deadlocked).
        probe_interval_s: an engine without a step for this long is probed.
        probe_deadline_s: a probe step must be through by then.
        step_s: no single engine step may last longer.
    """

    status_interval_s: float = 0.25
    silence_s: float = 4.0
    probe_interval_s: float = 10.0
    probe_deadline_s: float = 15.0
    step_s: float = 60.0


@dataclass(frozen=True, slots=True)
class EngineActivity:
    """What a status says about the engine."""

    steps: int
    is_computing: bool
    step_age_s: float


class ProbeClock:
    """Tells when a probe is due. Not thread-safe."""

    def __init__(self, limits: HealthLimits, now_s: float) -> None:
        self._limits = limits
        self._steps = -1
        self._last_proof_s = now_s

    def observe(self, activity: EngineActivity, now_s: float) -> None:
        """Take a status into account: a new step is as good as a probe."""
        if activity.steps != self._steps:
            self._steps = activity.steps
            self.prove(now_s)

    def prove(self, now_s: float) -> None:
        """A step went through the engine at `now_s`."""
        self._last_proof_s = now_s

    def is_due(self, activity: EngineActivity, now_s: float) -> bool:
        """Whether the engine has been idle for so long that it must prove itself."""
        return not activity.is_computing and now_s - self._last_proof_s >= self._limits.probe_interval_s


def is_stuck(activity: EngineActivity, limits: HealthLimits) -> bool:
    """Whether one engine step lasts longer than any may."""
    return activity.is_computing and activity.step_age_s > limits.step_s
