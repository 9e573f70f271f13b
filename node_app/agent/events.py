"""The events of an agent.

Invariant: plain frozen values; `state.py` alone defines how each event changes the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias


class SelfTest(Enum):
    """The result of a loaded shard's self test."""

    PENDING = auto()  # not tested yet
    PUT_OFF = auto()  # the site or the worker could not be asked; the test is tried again later
    ABSENT = auto()  # not tested: the site has no golden probe of the model, or there is no site
    PASSED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """The worker listens."""

    pid: int


@dataclass(frozen=True, slots=True)
class ShardLoaded:
    """The shard is in memory."""


@dataclass(frozen=True, slots=True)
class SelfTested:
    """The loaded shard was compared with golden rows, or there are none.

    Attributes:
        verdict: ABSENT, PASSED or FAILED.
        words: the figures, for people.
    """

    verdict: SelfTest
    words: str


@dataclass(frozen=True, slots=True)
class SelfTestPutOff:
    """The shard could not be compared with golden rows; try again after `delay_s`."""

    words: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class ShardMeasured:
    """Steps went through the engine and their times are known."""


@dataclass(frozen=True, slots=True)
class WorkerDown:
    """The worker ended; start again after `start_delay_s`."""

    reason: str
    failures: int
    start_delay_s: float


@dataclass(frozen=True, slots=True)
class WorkerGivenUp:
    """The worker cannot serve what was asked."""

    reason: str


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The site knows this installation."""

    node_id: str


@dataclass(frozen=True, slots=True)
class EnrolFailed:
    """The site could not be reached to enrol; the node tries again after `delay_s`."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class IdentityForgotten:
    """The site does not know this node any more."""


@dataclass(frozen=True, slots=True)
class ControlUp:
    """The site welcomed the node."""

    relay_url: str


@dataclass(frozen=True, slots=True)
class ControlDown:
    """The control connection is gone."""


@dataclass(frozen=True, slots=True)
class DataChanged:
    """The relay connection was made or lost."""

    is_connected: bool


@dataclass(frozen=True, slots=True)
class SessionsChanged:
    """A session opened or ended, so free cells changed."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A report of the state of `revision` was sent to the site."""

    revision: int


@dataclass(frozen=True, slots=True)
class ReportStored:
    """The site has stored the report of `revision` and plans with it.

    Attributes:
        earned_micros: micro-credits that the owner has earned and not yet made spendable; None if they did not change.
    """

    revision: int
    earned_micros: int | None = None


@dataclass(frozen=True, slots=True)
class NoticeChanged:
    """The site says why it does not use this node, or (both empty) that nothing is wrong any more."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class PauseAsked:
    """The volunteer pauses or resumes."""

    is_paused: bool


@dataclass(frozen=True, slots=True)
class QuitAsked:
    """The volunteer, or the system, ends the agent."""


@dataclass(frozen=True, slots=True)
class FatalFailure:
    """The agent must end, since trying again cannot help."""

    reason: str


WorkerEvent: TypeAlias = (
    WorkerStarted | ShardLoaded | SelfTested | SelfTestPutOff | ShardMeasured | WorkerDown | WorkerGivenUp
)
SiteEvent: TypeAlias = Enrolled | EnrolFailed | IdentityForgotten | ControlUp | ControlDown | DataChanged
AgentEvent: TypeAlias = Reported | ReportStored | NoticeChanged | PauseAsked | QuitAsked | FatalFailure
Event: TypeAlias = WorkerEvent | SiteEvent | AgentEvent | SessionsChanged
