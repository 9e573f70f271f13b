"""Decides whether and when a worker that ended is started again.

Invariants: pure. If a worker had served for a while, it is restarted at once. If it keeps dying, the pauses grow, but
the node never gives up, because a volunteer's machine may be short of memory for an hour and fine afterwards. If a
shard failed its self test or computes values that are not finite, it most likely will again, so it is loaded again
after minutes. The node gives up only if trying again cannot help: the file is no model, the architecture is not
supported, or the program is no worker. If the shard has served before, even these errors are not final, since the file
is probably being replaced and will be whole again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from meshnet.backoff import Backoff
from meshnet.failure_codes import FailureCode

RESTART_BACKOFF = Backoff(first_s=0.1, longest_s=60.0, factor=3.0)

# Loading again helps if a bit flipped while the weights were read, but not if a kernel computes wrongly.
SELF_TEST_BACKOFF = Backoff(first_s=120.0, longest_s=3600.0, factor=4.0)

DAMAGED = "the model's file may be damaged: compare its SHA-256 with that of its source, or download it again"

# If a worker served at least this long, earlier failures no longer count.
STABLE_AFTER_S = 60.0

# Load will be refused with these codes again, as long as file, layers and build are the same.
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
# The same program will end in the same way if it is started again.
FINAL_START_CODES = frozenset({"worker_unusable"})


class EndCause(Enum):
    """The event because of which a worker is not used any more."""

    EXITED = auto()  # the process ended
    STALLED = auto()  # its status did not come, or one step does not end
    PROBE_FAILED = auto()  # a probe failed or took too long
    START_FAILED = auto()  # it could not be started or was not ready in time
    LOAD_FAILED = auto()  # Load was refused or broke off
    BRIDGE_LOST = auto()  # the stream of frames broke
    SELF_TEST_FAILED = auto()  # the shard's rows are not near those of the golden probe


FINAL_CODES: Final[dict[EndCause, frozenset[str]]] = {
    EndCause.LOAD_FAILED: FINAL_LOAD_CODES,
    EndCause.START_FAILED: FINAL_START_CODES,
}


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """How a worker ended.

    Attributes:
        cause: the event that ended it.
        code: stable code for logs and reports.
        message: for people.
        served_s: how long the worker was watched, by the monotonic clock.
    """

    cause: EndCause
    code: str
    message: str
    served_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Restart:
    """The decision to start the worker again after `delay_s`.

    Attributes:
        failures: number of ends in a row, none of them after STABLE_AFTER_S of service.
    """

    delay_s: float
    failures: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The decision not to start the worker again, since that cannot help. `reason` is for people."""

    reason: str


def plan_restart(end: WorkerEnd, failures_before: int, jitter: float, *, has_served: bool) -> Restart | GiveUp:
    """Decide whether and when to start the worker again.

    Args:
        end: how the last worker ended.
        failures_before: number of ends in a row before this one, none of them after STABLE_AFTER_S of service.
        jitter: uniform in [0, 1).
        has_served: the shard has served before, with an earlier worker of this agent.
    """
    if end.code in FINAL_CODES.get(end.cause, ()) and not has_served:
        return GiveUp(end.message)
    if end.cause is EndCause.SELF_TEST_FAILED or _is_not_finite(end):
        return Restart(SELF_TEST_BACKOFF.delay_s(failures_before + 1, jitter), failures_before + 1)
    failures = 1 if end.served_s >= STABLE_AFTER_S else failures_before + 1
    return Restart(RESTART_BACKOFF.delay_s(failures, jitter), failures)


def explain(end: WorkerEnd) -> str:
    """Return for the volunteer why a worker ended, with advice if there is any."""
    return f"{end.message}; {DAMAGED}" if _is_not_finite(end) else end.message


def _is_not_finite(end: WorkerEnd) -> bool:
    """Whether a probe gave rows that are not finite; since its input is good, the weights must be wrong."""
    return end.cause is EndCause.PROBE_FAILED and end.code == FailureCode.NOT_FINITE
