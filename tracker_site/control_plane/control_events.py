"""What passes between a control connection's machine and its driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.ids import SessionKey

if TYPE_CHECKING:
    from meshnet.v1 import control_pb2
    from tracker_site.nodes.reports import Report


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A stage somebody wants opened.

    Attributes:
        open: the terms; its request_id is set by the connection.
        answer_channel: where the one answer goes.
        reply_channel: where later news of the session goes.
        timeout_s: how long the node may take.
    """

    open: control_pb2.OpenStage
    answer_channel: str
    reply_channel: str
    timeout_s: float

    @property
    def key(self) -> SessionKey:
        """The session it belongs to."""
        return SessionKey(self.open.spec.session, self.open.spec.epoch)


@dataclass(frozen=True, slots=True)
class HelloProven:
    """The node holds this key; whether it is enrolled is to be found out."""

    public_key: bytes
    software_version: str
    open_sessions: frozenset[SessionKey]


@dataclass(frozen=True, slots=True)
class HelloUnusable:
    """The node holds this key, and no wire version is common; the refusal is on its way."""

    public_key: bytes
    software_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reported:
    """A report arrived."""

    report: Report


@dataclass(frozen=True, slots=True)
class Opened:
    """The node opened the stage."""

    request: OpenRequest
    answer: control_pb2.StageOpened


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The stage was refused, or no answer can come any more."""

    request: OpenRequest
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The node ended a session by itself."""

    key: SessionKey
    stage: int
    code: str
    message: str


Event = HelloProven | HelloUnusable | Reported | Opened | OpenFailed | Ended
