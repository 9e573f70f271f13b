"""What the tray knows of the agent after each attempt to ask it.

Invariants: pure; the answer depends on the last observation and the new outcome alone. One attempt that failed between
good ones changes nothing that is shown: an agent that is busy, or that was just restarted, is not an agent that failed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from http import HTTPStatus
from typing import Final, TypeAlias

from node_app.status.agent_status import AgentStatus, StatusError, parse_status

# Failed attempts in a row after a good one that are not shown yet.
MISSES_TOLERATED: Final = 1


class Cause(Enum):
    """Why a request had no answer."""

    NOBODY_LISTENS = auto()
    TOO_SLOW = auto()
    TOO_LARGE = auto()
    BROKEN = auto()


@dataclass(frozen=True, slots=True)
class Answered:
    """An HTTP answer that came in time and within bounds."""

    http_status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No such answer."""

    cause: Cause


Reply: TypeAlias = Answered | Unanswered


@dataclass(frozen=True, slots=True)
class NoAddress:
    """The state directory names no agent."""


@dataclass(frozen=True, slots=True)
class BadAddress:
    """The address file cannot be believed; `message` is for people."""

    message: str


@dataclass(frozen=True, slots=True)
class Asked:
    """An agent was asked for its status. `pid` is the one in the address file."""

    pid: int
    reply: Reply


Outcome: TypeAlias = NoAddress | BadAddress | Asked


class Contact(Enum):
    """How the tray stands with the agent."""

    UNKNOWN = auto()  # nothing was tried yet
    ABSENT = auto()  # none is running
    DIED = auto()  # its address is still there, and nobody listens
    SILENT = auto()  # it does not answer in time
    REFUSED = auto()  # it does not take our token
    STRANGE = auto()  # what answers is no agent, or the address file is damaged
    CONNECTED = auto()


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known.

    Attributes:
        status: the last one; None unless CONNECTED.
        pid: of the agent that the address file names; 0 where there is none.
        detail: more about STRANGE, for people.
        misses: failed attempts since the last good one that are not shown.
        is_restarted: another agent than the one seen before answers.
    """

    contact: Contact = Contact.UNKNOWN
    status: AgentStatus | None = None
    pid: int = 0
    detail: str = ""
    misses: int = 0
    is_restarted: bool = False


def observe(before: Observation, outcome: Outcome) -> Observation:
    """Return what is known after `outcome`."""
    if isinstance(outcome, NoAddress):
        # Written and taken away in order, so this is the agent's own word.
        return Observation(Contact.ABSENT)
    after = _read(outcome)
    if after.contact is Contact.CONNECTED:
        return replace(after, is_restarted=before.pid not in {0, after.pid})
    if before.contact is Contact.CONNECTED and before.misses < MISSES_TOLERATED:
        return replace(before, misses=before.misses + 1, is_restarted=False)
    return after


def _read(outcome: BadAddress | Asked) -> Observation:
    if isinstance(outcome, BadAddress):
        return Observation(Contact.STRANGE, detail=outcome.message)
    if isinstance(outcome.reply, Unanswered):
        return _read_cause(outcome.reply.cause, outcome.pid)
    return _read_answer(outcome.reply, outcome.pid)


def _read_cause(cause: Cause, pid: int) -> Observation:
    match cause:
        case Cause.NOBODY_LISTENS:
            return Observation(Contact.DIED, pid=pid)
        case Cause.TOO_SLOW:
            return Observation(Contact.SILENT, pid=pid)
        case Cause.TOO_LARGE:
            return Observation(Contact.STRANGE, pid=pid, detail="Its answer is larger than a status can be.")
        case Cause.BROKEN:
            return Observation(Contact.STRANGE, pid=pid, detail="Its answer broke off.")


def _read_answer(answer: Answered, pid: int) -> Observation:
    if answer.http_status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Observation(Contact.REFUSED, pid=pid)
    if answer.http_status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Observation(Contact.SILENT, pid=pid)
    if answer.http_status != HTTPStatus.OK:
        return Observation(Contact.STRANGE, pid=pid, detail=f"It answered with status {answer.http_status}.")
    try:
        return Observation(Contact.CONNECTED, parse_status(answer.body), pid)
    except StatusError as error:
        return Observation(Contact.STRANGE, pid=pid, detail=f"Its answer is no status: {error}.")
