"""The node's side of the control connection, without I/O.

Invariants: pure: it takes the site's messages as bytes, and gives events and the node's messages. The site sends a
challenge first, then the node a hello, then the site a welcome. A message that is out of this order, undecodable or too
large closes the connection (`ProtocolError`). After a refusal or an error nothing is sent any more. Source:
control.proto, docs/wire.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

from google.protobuf.message import DecodeError

from meshnet.constants import MAX_MESSAGE_BYTES, WIRE_VERSION, WIRE_VERSION_MIN
from meshnet.errors import ProtocolError
from meshnet.failure_codes import FailureCode
from meshnet.ids import SessionKey
from meshnet.keys import SignatureContext, SigningKey
from meshnet.printable import one_line
from meshnet.v1 import control_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NONCE_BYTES = 32
HEARTBEAT_MIN_MS = 100
OUTGOING_MAX = 1024
NOTICE_LENGTH_MAX = 300
# Far above any real sum, and exact in JSON.
EARNED_MAX_MICROS = 2**53
REFUSED_VERSION = "version_mismatch"


class ControlPhase(Enum):
    """How far the exchange of challenge, hello and welcome has come."""

    AWAIT_CHALLENGE = auto()
    AWAIT_WELCOME = auto()
    OPEN = auto()
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The site accepted the node.

    Attributes:
        heartbeat_s: the longest time that may pass between two reports of the node.
        relay_url: address of the relay to which the node connects; empty if the site names none.
        keep: the sessions from the node's hello that the site still wants; the node closes the others.
    """

    node_id: str
    heartbeat_s: float
    relay_url: str
    site_public_key: bytes
    keep: frozenset[SessionKey]


@dataclass(frozen=True, slots=True)
class OpenAsked:
    """The site asks the node to open a stage."""

    request: control_pb2.OpenStage


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """The site asks the node to close a session's stage."""

    key: SessionKey
    reason: str


@dataclass(frozen=True, slots=True)
class StoredTold:
    """The site has stored the report `report_id`, or a newer one, and plans routes with it.

    Attributes:
        earned_micros: micro-credits that the owner has earned and not yet made spendable; None if they did not change.
    """

    report_id: int
    earned_micros: int | None = None


@dataclass(frozen=True, slots=True)
class NoticeTold:
    """The site tells why it does not use this node; both fields are empty if it uses the node again."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SiteRefused:
    """The site refused the node, or speaks no wire version that this node speaks. The connection is closed."""

    code: str
    message: str


ControlEvent: TypeAlias = Welcomed | OpenAsked | CloseAsked | StoredTold | NoticeTold | SiteRefused


class ControlMachine:
    """The protocol state of one connection; a new connection needs a new machine. Not thread-safe.

    Attributes:
        was_open: whether the site has accepted the node on this connection.
    """

    def __init__(self, key: SigningKey, software_version: str, open_sessions: Iterable[SessionKey]) -> None:
        self._key = key
        self._software_version = software_version
        self._open_sessions = tuple(open_sessions)
        self._phase = ControlPhase.AWAIT_CHALLENGE
        self._events: list[ControlEvent] = []
        self._outgoing: list[bytes] = []
        self.was_open = False

    @property
    def phase(self) -> ControlPhase:
        """How far the exchange of challenge, hello and welcome has come."""
        return self._phase

    def receive(self, data: bytes) -> None:
        """Handle one message of the site; `events` and `messages_to_send` then return the results.

        Raises:
            ProtocolError: the message breaks the protocol; the caller closes the connection.
        """
        if self._phase is ControlPhase.CLOSED:
            return  # the site sent it before it saw that this side had closed
        try:
            self._handle(_parse(data))
        except ProtocolError:
            self._phase = ControlPhase.CLOSED
            raise

    def _handle(self, message: control_pb2.SiteMessage) -> None:
        body = message.WhichOneof("body")
        if body == "refusal":
            self._phase = ControlPhase.CLOSED
            self._events.append(SiteRefused(message.refusal.code, message.refusal.message))
        elif body == "challenge" and self._phase is ControlPhase.AWAIT_CHALLENGE:
            self._answer(message.challenge)
        elif body == "welcome" and self._phase is ControlPhase.AWAIT_WELCOME:
            self._accept(message.welcome)
        elif body == "open" and self._phase is ControlPhase.OPEN:
            self._events.append(OpenAsked(message.open))
        elif body == "close" and self._phase is ControlPhase.OPEN:
            key = SessionKey(message.close.session, message.close.epoch)
            self._events.append(CloseAsked(key, message.close.reason))
        elif body == "stored" and self._phase is ControlPhase.OPEN:
            self._events.append(_stored_told(message.stored))
        elif body == "notice" and self._phase is ControlPhase.OPEN:
            notice = message.notice
            self._events.append(NoticeTold(one_line(notice.code, 64), one_line(notice.message, NOTICE_LENGTH_MAX)))
        else:
            raise _broken(f"the site sent {body or 'nothing'} in phase {self._phase.name}")

    def _answer(self, challenge: control_pb2.ControlChallenge) -> None:
        if len(challenge.nonce) != NONCE_BYTES:
            raise _broken(f"a nonce of {len(challenge.nonce)} bytes")
        hello = control_pb2.ControlHello(
            public_key=self._key.public_key,
            signature=self._key.sign(SignatureContext.CONTROL, challenge.nonce),
            wire_version_min=WIRE_VERSION_MIN,
            wire_version_max=WIRE_VERSION,
            software_version=self._software_version,
            open_sessions=[control_pb2.SessionRef(session=key.session, epoch=key.epoch) for key in self._open_sessions],
        )
        self._phase = ControlPhase.AWAIT_WELCOME
        self._send(control_pb2.NodeMessage(hello=hello))
        # The hello goes first: from it the site knows which node it is, and can show why that node is not connected.
        if challenge.wire_version_max < WIRE_VERSION_MIN or challenge.wire_version_min > WIRE_VERSION:
            self._refuse_version(challenge)

    def _refuse_version(self, challenge: control_pb2.ControlChallenge) -> None:
        site = f"{challenge.wire_version_min} to {challenge.wire_version_max}"
        message = (
            f"the site speaks wire versions {site}, this node {WIRE_VERSION_MIN} to {WIRE_VERSION}; "
            "update the older of the two"
        )
        self._phase = ControlPhase.CLOSED
        self._events.append(SiteRefused(REFUSED_VERSION, message))

    def _accept(self, welcome: control_pb2.ControlWelcome) -> None:
        self._phase = ControlPhase.OPEN
        self.was_open = True
        self._events.append(
            Welcomed(
                node_id=welcome.node_id,
                heartbeat_s=max(welcome.heartbeat_ms, HEARTBEAT_MIN_MS) / 1000,
                relay_url=welcome.relay_url,
                site_public_key=welcome.site_public_key,
                keep=frozenset(SessionKey(ref.session, ref.epoch) for ref in welcome.keep),
            )
        )

    def send(self, message: control_pb2.NodeMessage) -> bool:
        """Queue a message and return True; if the connection is not open, drop the message and return False.

        The site misses nothing by that: the next hello lists the open sessions, and the first report gives the rest.
        """
        if len(self._outgoing) >= OUTGOING_MAX:
            self._phase = ControlPhase.CLOSED  # the site does not read; a new connection starts from the present state
        if self._phase is not ControlPhase.OPEN:
            return False
        self._send(message)
        return True

    def _send(self, message: control_pb2.NodeMessage) -> None:
        self._outgoing.append(message.SerializeToString())

    def events(self) -> Sequence[ControlEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def messages_to_send(self) -> Sequence[bytes]:
        """Return the messages queued since the last call, in the order in which they must be sent."""
        messages, self._outgoing = self._outgoing, []
        return messages


def _parse(data: bytes) -> control_pb2.SiteMessage:
    if len(data) > MAX_MESSAGE_BYTES:
        raise _broken(f"a message of {len(data)} bytes")
    try:
        return control_pb2.SiteMessage.FromString(data)
    except DecodeError as error:
        raise _broken("bytes that do not decode") from error


def _stored_told(stored: control_pb2.ReportStored) -> StoredTold:
    if not stored.HasField("earned_micros"):
        return StoredTold(stored.report_id)
    if stored.earned_micros > EARNED_MAX_MICROS:
        raise _broken(f"earnings of {stored.earned_micros} micro-credits")
    return StoredTold(stored.report_id, stored.earned_micros)


def _broken(problem: str) -> ProtocolError:
    return ProtocolError(FailureCode.MALFORMED, "Site not understood", f"control connection: {problem}")
