"""Turns the outcome of each status request into the tray's observation of the agent.

Invariants: pure: the result depends only on the last observation and the new outcome. If a single attempt fails between
good ones, the tray shows no change, since a busy or just restarted agent has not failed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from http import HTTPStatus
from typing import Final, TypeAlias

from node_app.status.agent_status import AgentStatus, StatusError, parse_status

# After a good attempt, this many failed ones in a row are not shown.
MISSES_TOLERATED: Final = 1


class Cause(Enum):
    """The reason why a request got no usable answer."""

    NOBODY_LISTENS = auto()
    TOO_SLOW = auto()
    TOO_LARGE = auto()
    BROKEN = auto()


@dataclass(frozen=True, slots=True)
class Answered:
    """An HTTP answer that came before its deadline and within the size limit."""

    http_status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The outcome of a request that got no usable answer."""

    cause: Cause


Reply: TypeAlias = Answered | Unanswered


@dataclass(frozen=True, slots=True)
class NoAddress:
    """The state directory has no address file, so there was no agent to ask."""


@dataclass(frozen=True, slots=True)
class BadAddress:
    """The address file is damaged, so no agent was asked; `message` is for people."""

    message: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The agent was asked for its status. `pid`: its process number according to the address file."""

    pid: int
    reply: Reply


Outcome: TypeAlias = NoAddress | BadAddress | Asked


class Contact(Enum):
    """State of the tray's contact with the agent."""

    UNKNOWN = auto()  # nothing was tried yet
    ABSENT = auto()  # none is running
    DIED = auto()  # its address file is still there, but nobody listens at the address
    SILENT = auto()  # it does not answer before the deadline
    REFUSED = auto()  # it refuses our token
    STRANGE = auto()  # the answer is not an agent's, or the address file is damaged
    CONNECTED = auto()


@dataclass(frozen=True, slots=True)
class Observation:
    """The tray's knowledge of the agent.

    Attributes:
        status: the last status; None unless CONNECTED.
        pid: process number of the agent that the address file names; 0 if there is none.
        detail: if STRANGE, a sentence for people about the strange answer or file.
        misses: number of failed attempts since the last good one; they were tolerated, so `contact` is still CONNECTED.
        is_restarted: the agent that answered is another process than before.
    """

    contact: Contact = Contact.UNKNOWN
    status: AgentStatus | None = None
    pid: int = 0
    detail: str = ""
    misses: int = 0
    is_restarted: bool = False


def observe(before: Observation, outcome: Outcome) -> Observation:
    """Return the observation that follows on `before` when an attempt to ask the agent had this outcome."""
    if isinstance(outcome, NoAddress):
        # An agent removes its address file when it ends in order, so no attempt needs to be repeated.
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
            return Observation(Contact.STRANGE, pid=pid, detail="Its answer is too large for a node's status.")
        case Cause.BROKEN:
            return Observation(Contact.STRANGE, pid=pid, detail="The connection broke during its answer.")


def _read_answer(answer: Answered, pid: int) -> Observation:
    if answer.http_status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Observation(Contact.REFUSED, pid=pid)
    if answer.http_status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Observation(Contact.SILENT, pid=pid)
    if answer.http_status != HTTPStatus.OK:
        return Observation(Contact.STRANGE, pid=pid, detail=f"It answered with HTTP status {answer.http_status}.")
    try:
        return Observation(Contact.CONNECTED, parse_status(answer.body), pid)
    except StatusError as error:
        return Observation(Contact.STRANGE, pid=pid, detail=f"Its answer is not a node's status: {error}.")
