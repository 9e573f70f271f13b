"""Whether and when a worker that ended is started again.

Invariant: pure. A worker that served well is restarted at once; one that keeps dying is restarted ever more slowly,
but forever, because a volunteer's machine may be short of memory for an hour and fine afterwards. A shard that failed
its self test, or computes what is no number, is loaded again after minutes at the earliest: it will most likely fail
again. Only what cannot change by trying again (a file that is no model, an architecture that is not supported, a
program that is no worker) is final, and nothing once the shard has served: the file is being replaced then, and will
be whole again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from meshnet.backoff import Backoff
from meshnet.failure_codes import FailureCode

RESTART_BACKOFF = Backoff(first_s=0.1, longest_s=60.0, factor=3.0)

# A bit that flipped while the weights were read is gone when they are read again; a wrong kernel is not.
SELF_TEST_BACKOFF = Backoff(first_s=120.0, longest_s=3600.0, factor=4.0)

DAMAGED = "its file may be damaged: compare its SHA-256 with its source's, or fetch it again"

# Served at least this long: the failure does not count with earlier ones.
STABLE_AFTER_S = 60.0

# Refusals of Load that the same file, layers and build will give again.
FINAL_LOAD_CODES = frozenset(
    {
        "context_too_long",
        "file_missing",
        "invalid_argument",
        "layers_out_of_range",
        "not_gguf",
        "truncated",
        "unsupported_architecture",
    }
)
# The same program will end in the same way.
FINAL_START_CODES = frozenset({"worker_unusable"})


class EndCause(Enum):
    """Why a worker is no longer of use."""

    EXITED = auto()  # the process ended
    STALLED = auto()  # no sign of life, or one step that does not end
    PROBE_FAILED = auto()  # a step through the engine failed or came late
    START_FAILED = auto()  # no ready line
    LOAD_FAILED = auto()  # Load was refused or broke off
    BRIDGE_LOST = auto()  # the stream of frames broke
    SELF_TEST_FAILED = auto()  # the shard computes other rows than it should


FINAL_CODES: Final[dict[EndCause, frozenset[str]]] = {
    EndCause.LOAD_FAILED: FINAL_LOAD_CODES,
    EndCause.START_FAILED: FINAL_START_CODES,
}


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """How a worker's life ended.

    Attributes:
        cause: what was seen.
        code: stable code for logs and reports.
        message: for people.
        served_s: how long it had served, by the monotonic clock.
    """

    cause: EndCause
    code: str
    message: str
    served_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Restart:
    """Start again after `delay_s`; `failures` counts ends in a row without a stable stretch."""

    delay_s: float
    failures: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Trying again cannot help."""

    reason: str


def plan_restart(end: WorkerEnd, failures_before: int, jitter: float, *, has_served: bool) -> Restart | GiveUp:
    """Decide what follows a worker's end.

    Args:
        end: how it ended.
        failures_before: ends in a row before this one.
        jitter: uniform in [0, 1).
        has_served: the shard has served before, in an earlier worker of this agent.
    """
    if end.code in FINAL_CODES.get(end.cause, ()) and not has_served:
        return GiveUp(end.message)
    if end.cause is EndCause.SELF_TEST_FAILED or _is_not_finite(end):
        return Restart(SELF_TEST_BACKOFF.delay_s(failures_before + 1, jitter), failures_before + 1)
    failures = 1 if end.served_s >= STABLE_AFTER_S else failures_before + 1
    return Restart(RESTART_BACKOFF.delay_s(failures, jitter), failures)


def explain(end: WorkerEnd) -> str:
    """Return why a worker ended, and what to do where that is known, for the volunteer."""
    return f"{end.message}; {DAMAGED}" if _is_not_finite(end) else end.message


def _is_not_finite(end: WorkerEnd) -> bool:
    """Whether a probe, which is made of good rows, gave none."""
    return end.cause is EndCause.PROBE_FAILED and end.code == FailureCode.NOT_FINITE
