"""Events that a control connection's state machine gives to its driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.ids import SessionKey

if TYPE_CHECKING:
    from meshnet.v1 import control_pb2
    from tracker_site.nodes.reports import Report


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request to open a stage on the node.

    Attributes:
        open: the terms, without `request_id`, which the connection sets.
        answer_channel: the channel that gets the one answer.
        reply_channel: the channel that gets later news of the session.
        timeout_s: how long the node has to answer.
    """

    open: control_pb2.OpenStage
    answer_channel: str
    reply_channel: str
    timeout_s: float

    @property
    def key(self) -> SessionKey:
        """The stage's session and epoch."""
        return SessionKey(self.open.spec.session, self.open.spec.epoch)


@dataclass(frozen=True, slots=True)
class HelloProven:
    """The node has proven that it holds the private half of `public_key`. The driver must look up if it is enrolled.

    `open_sessions` are the sessions that the node says are still open on it.
    """

    public_key: bytes
    software_version: str
    open_sessions: frozenset[SessionKey]


@dataclass(frozen=True, slots=True)
class HelloUnusable:
    """The node has proven its key, but has no wire version in common with the site. The refusal is already queued."""

    public_key: bytes
    software_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reported:
    """The node sent a valid report."""

    report: Report


@dataclass(frozen=True, slots=True)
class Opened:
    """The node opened the stage that `request` asks for; `answer` is its message."""

    request: OpenRequest
    answer: control_pb2.StageOpened


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The stage that `request` asks for was not opened. `code` and `message` say why, for example a refusal."""

    request: OpenRequest
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The node ended a session without being asked to."""

    key: SessionKey
    stage: int
    code: str
    message: str


Event = HelloProven | HelloUnusable | Reported | Opened | OpenFailed | Ended
