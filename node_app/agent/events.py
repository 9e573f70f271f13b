"""The events that change an agent's state.

Invariant: events are plain frozen values; `state.py` alone defines how each event changes the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias


class SelfTest(Enum):
    """The result of a shard's self test, which compares its output rows with those of the model's golden probe."""

    PENDING = auto()  # not tested yet
    PUT_OFF = auto()  # the site or the worker could not be asked; the test is tried again later
    ABSENT = auto()  # not tested: the site has no golden probe of the model
    PASSED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A worker process was started and answers calls. `pid`: its process id."""

    pid: int


@dataclass(frozen=True, slots=True)
class ShardLoaded:
    """The worker has loaded the shard into memory."""


@dataclass(frozen=True, slots=True)
class SelfTested:
    """The self test of the loaded shard has ended, or the site has no golden probe for it.

    Attributes:
        verdict: ABSENT, PASSED or FAILED.
        words: the test's figures, or why there was no test, for people.
    """

    verdict: SelfTest
    words: str


@dataclass(frozen=True, slots=True)
class SelfTestPutOff:
    """The self test could not be made now; the agent tries again after `delay_s`. `words`: the reason, for people."""

    words: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class ShardMeasured:
    """The worker has run steps with the loaded shard, and their times were measured."""


@dataclass(frozen=True, slots=True)
class WorkerDown:
    """The worker ended; the agent starts a new one after `start_delay_s`.

    Attributes:
        reason: why it ended, for people.
        failures: how many workers have ended in a row; a worker that served for a minute begins the count anew.
    """

    reason: str
    failures: int
    start_delay_s: float


@dataclass(frozen=True, slots=True)
class WorkerGivenUp:
    """The worker ended and no new one is started, since it would fail again. `reason`: why, for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The site enrolled this installation and gave it `node_id`."""

    node_id: str


@dataclass(frozen=True, slots=True)
class EnrolFailed:
    """The site could not be reached for enrolment, or was not ready; the agent tries again after `delay_s`."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class IdentityForgotten:
    """The site does not know this node any more, so the agent must enrol it again."""


@dataclass(frozen=True, slots=True)
class ControlUp:
    """The site accepted the node on the control connection. `relay_url`: the relay's address; empty if not named."""

    relay_url: str


@dataclass(frozen=True, slots=True)
class ControlDown:
    """The control connection ended or could not be made."""


@dataclass(frozen=True, slots=True)
class DataChanged:
    """The connection to the relay was made or lost."""

    is_connected: bool


@dataclass(frozen=True, slots=True)
class SessionsChanged:
    """A session opened or ended, so the number of free KV cells changed."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A report was sent to the site. `revision`: `AgentState.revision` at that time."""

    revision: int


@dataclass(frozen=True, slots=True)
class ReportStored:
    """The site has stored a report of this node and plans routes with it.

    Attributes:
        revision: `AgentState.revision` when the report was made.
        earned_micros: micro-credits that the owner has earned and not yet made spendable; None if they did not change.
    """

    revision: int
    earned_micros: int | None = None


@dataclass(frozen=True, slots=True)
class NoticeChanged:
    """The site told why it cannot use this node; if `code` and `message` are empty, it can use the node again."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class PauseAsked:
    """The volunteer asked to pause the node or to resume it."""

    is_paused: bool


@dataclass(frozen=True, slots=True)
class QuitAsked:
    """The volunteer or the operating system asked the agent to end."""


@dataclass(frozen=True, slots=True)
class FatalFailure:
    """The agent must end, since trying again cannot help. `reason`: why, for people."""

    reason: str


WorkerEvent: TypeAlias = (
    WorkerStarted | ShardLoaded | SelfTested | SelfTestPutOff | ShardMeasured | WorkerDown | WorkerGivenUp
)
SiteEvent: TypeAlias = Enrolled | EnrolFailed | IdentityForgotten | ControlUp | ControlDown | DataChanged
AgentEvent: TypeAlias = Reported | ReportStored | NoticeChanged | PauseAsked | QuitAsked | FatalFailure
Event: TypeAlias = WorkerEvent | SiteEvent | AgentEvent | SessionsChanged
