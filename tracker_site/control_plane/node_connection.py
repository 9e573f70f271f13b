"""State machine of one control connection, without its socket: hello, reports, opening and closing of stages.

Invariants: before the node is identified, only a valid hello is accepted. Every request to open a stage is answered
once: by the node, by its deadline, or by the end of the connection. After CLOSED, nothing more is queued and every
input is ignored. The caller passes the time and the nonce, and identifies the node. Not thread-safe; owned by one
consumer.

Source: docs/wire.md, Closing and admission, Signatures; control.proto.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from meshnet.constants import WIRE_VERSION, WIRE_VERSION_MIN
from meshnet.failure_codes import FailureCode
from meshnet.keys import SignatureContext, verify
from meshnet.printable import one_line
from meshnet.v1 import control_pb2
from tracker_site.control_plane.control_events import (
    Ended,
    Event,
    HelloProven,
    HelloUnusable,
    Opened,
    OpenFailed,
    OpenRequest,
    Reported,
)
from tracker_site.nodes.notices import Notice
from tracker_site.nodes.refusals import ControlError, ControlRefusalCode
from tracker_site.nodes.reports import parse_code, parse_report, parse_session, parse_session_refs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.ids import SessionKey

# A report of MAX_SHARDS shards takes a few KiB; the rest is room for open sessions.
MAX_CONTROL_MESSAGE_BYTES: Final = 256 * 1024
MAX_PENDING_OPENS: Final = 1024


class State(Enum):
    """State of a control connection. CLOSED is final."""

    AWAITING_HELLO = "awaiting hello"
    IDENTIFYING = "identifying"
    OPEN = "open"
    CLOSED = "closed"


# Message bodies that a node may send in each state; any other closes the connection.
PERMITTED: Final[dict[State, frozenset[str]]] = {
    State.AWAITING_HELLO: frozenset({"hello"}),
    State.IDENTIFYING: frozenset(),
    State.OPEN: frozenset({"report", "opened", "refused", "ended"}),
    State.CLOSED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class ConnectionTerms:
    """Values that the site sends to a node, and time limits that the node must keep.

    Attributes:
        nonce: random bytes that the node signs in its hello.
        heartbeat_ms: interval at which the node is to report.
        lease_ms: longest time without a report.
        hello_timeout_s: longest time from the start of the connection to the node's hello.
        relay_url: the relay to which the node connects.
        site_public_key: the key by which the node checks tickets.
    """

    nonce: bytes
    heartbeat_ms: int
    lease_ms: int
    hello_timeout_s: float
    relay_url: str
    site_public_key: bytes


@dataclass(slots=True)
class _Pending:
    request: OpenRequest
    deadline_s: float


@dataclass(slots=True)
class NodeConnection:
    """State machine of the site's end of one control connection; the consumer sends the messages that it queues."""

    terms: ConnectionTerms
    opened_at_s: float
    state: State = State.AWAITING_HELLO
    _outgoing: list[control_pb2.SiteMessage] = field(default_factory=list)
    _events: list[Event] = field(default_factory=list)
    _pending: dict[int, _Pending] = field(default_factory=dict)
    # Requests that the site no longer waits for. If the node opens one of them after all, the stage is closed again.
    _abandoned: dict[int, SessionKey] = field(default_factory=dict)
    _last_request_id: int = 0
    _told: Notice = field(default_factory=Notice)
    _silence_deadline_s: float = 0.0

    def __post_init__(self) -> None:
        self._silence_deadline_s = self.opened_at_s + self.terms.hello_timeout_s
        challenge = control_pb2.ControlChallenge(
            nonce=self.terms.nonce, wire_version_min=WIRE_VERSION_MIN, wire_version_max=WIRE_VERSION
        )
        self._outgoing.append(control_pb2.SiteMessage(challenge=challenge))

    # Outputs

    def messages_to_send(self) -> list[bytes]:
        """Return the queued messages, in order; the caller must send all of them."""
        messages = [message.SerializeToString() for message in self._outgoing]
        self._outgoing.clear()
        return messages

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    def next_deadline_s(self) -> float | None:
        """Return the monotonic time by which `tick` must be called; None if closed."""
        if self.state is State.CLOSED:
            return None
        return min([self._silence_deadline_s, *(pending.deadline_s for pending in self._pending.values())])

    @property
    def is_closed(self) -> bool:
        """Whether the caller must close the socket after it has sent `messages_to_send`."""
        return self.state is State.CLOSED

    # Inputs from the node

    def receive(self, data: bytes, now_s: float) -> None:
        """Handle one WebSocket message. If it breaks the rules, the connection is refused and closed."""
        if self.state is State.CLOSED:
            return
        try:
            self._receive(_parse(data), now_s)
        except ControlError as error:
            self.refuse(error.refusal_code, error.message)

    def connection_lost(self) -> None:
        """Note that the socket is gone: every unanswered request fails."""
        self._close("the node's control connection is gone")

    def tick(self, now_s: float) -> None:
        """Handle the deadlines that have passed by `now_s`, monotonic."""
        if self.state is State.CLOSED:
            return
        if now_s >= self._silence_deadline_s:
            self._refuse_silence()
            return
        for request_id, pending in list(self._pending.items()):
            if now_s >= pending.deadline_s:
                self._abandon(request_id, FailureCode.STAGE_LOST, "the node did not answer in time")

    # Inputs from the site

    def identified(self, node_id: str, keep: Iterable[SessionKey], now_s: float) -> None:
        """Welcome the node, because its proven key is enrolled. `keep` are the open sessions that it must keep."""
        if self.state is not State.IDENTIFYING:
            return
        self.state = State.OPEN
        self._silence_deadline_s = now_s + self.terms.lease_ms / 1000
        welcome = control_pb2.ControlWelcome(
            node_id=node_id,
            heartbeat_ms=self.terms.heartbeat_ms,
            lease_ms=self.terms.lease_ms,
            relay_url=self.terms.relay_url,
            site_public_key=self.terms.site_public_key,
            keep=[control_pb2.SessionRef(session=key.session, epoch=key.epoch) for key in keep],
        )
        self._outgoing.append(control_pb2.SiteMessage(welcome=welcome))

    def report_stored(self, report_id: int, earned_micros: int | None = None) -> None:
        """Tell the node that the site has stored its report and now plans routes with it.

        Args:
            report_id: the number that the node gave the report; if it is 0, nothing is sent.
            earned_micros: the owner's earnings in micro-credits; None if the node is not to be told this time.
        """
        if self.state is State.OPEN and report_id:
            stored = control_pb2.ReportStored(report_id=report_id, earned_micros=earned_micros)
            self._outgoing.append(control_pb2.SiteMessage(stored=stored))

    def tell(self, notice: Notice) -> None:
        """Queue a notice for the node's volunteer, if it differs from the last notice."""
        if self.state is State.OPEN and notice != self._told:
            self._told = notice
            told = control_pb2.SiteNotice(code=notice.code, message=notice.message)
            self._outgoing.append(control_pb2.SiteMessage(notice=told))

    def refuse(self, code: ControlRefusalCode, message: str) -> None:
        """Queue a refusal with its reason, then close."""
        if self.state is State.CLOSED:
            return
        refusal = control_pb2.ControlRefusal(code=code, message=message)
        self._outgoing.append(control_pb2.SiteMessage(refusal=refusal))
        self._close(message)

    def open_stage(self, request: OpenRequest, now_s: float) -> None:
        """Ask the node to open a stage; exactly one `Opened` or `OpenFailed` follows."""
        if self.state is not State.OPEN:
            self._fail(request, FailureCode.STAGE_LOST, "the node is not connected")
            return
        if len(self._pending) >= MAX_PENDING_OPENS:
            self._fail(request, FailureCode.TOO_MANY_SESSIONS, "the node has too many unanswered requests")
            return
        self._last_request_id += 1
        message = control_pb2.OpenStage()
        message.CopyFrom(request.open)
        message.request_id = self._last_request_id
        self._pending[self._last_request_id] = _Pending(request, now_s + request.timeout_s)
        self._outgoing.append(control_pb2.SiteMessage(open=message))

    def close_stage(self, key: SessionKey, reason: str) -> None:
        """Tell the node to close a session. An unanswered request to open that session fails with `cancelled`."""
        if self.state is State.OPEN:
            for request_id in [number for number, pending in self._pending.items() if pending.request.key == key]:
                self._abandon(request_id, FailureCode.CANCELLED, reason)
            close = control_pb2.CloseStage(session=key.session, epoch=key.epoch, reason=reason)
            self._outgoing.append(control_pb2.SiteMessage(close=close))

    # Inside

    def _receive(self, message: control_pb2.NodeMessage, now_s: float) -> None:
        body = message.WhichOneof("body")
        if body is None:
            raise ControlError(ControlRefusalCode.MALFORMED, "the message has no body; update the node's software")
        if body not in PERMITTED[self.state]:
            text = f"{body} is not accepted while {self.state.value}"
            raise ControlError(ControlRefusalCode.UNEXPECTED_MESSAGE, text)
        match body:
            case "hello":
                self._receive_hello(message.hello)
            case "report":
                self._events.append(Reported(parse_report(message.report)))
                self._silence_deadline_s = now_s + self.terms.lease_ms / 1000
            case "opened":
                self._receive_opened(message.opened)
            case "refused":
                self._receive_refused(message.refused)
            case "ended":
                ended = message.ended
                key = parse_session(ended.session, ended.epoch)
                self._events.append(Ended(key, ended.stage, parse_code(ended.code), one_line(ended.message)))

    def _receive_hello(self, hello: control_pb2.ControlHello) -> None:
        if not verify(hello.public_key, SignatureContext.CONTROL, self.terms.nonce, hello.signature):
            raise ControlError(ControlRefusalCode.BAD_SIGNATURE, "the signature does not fit the key and the challenge")
        software_version = one_line(hello.software_version, 64)
        if hello.wire_version_min > WIRE_VERSION or hello.wire_version_max < WIRE_VERSION_MIN:
            node = f"{hello.wire_version_min} to {hello.wire_version_max}; update the older of the two"
            spoken = f"the site speaks wire versions {WIRE_VERSION_MIN} to {WIRE_VERSION}, the node {node}"
            self._events.append(HelloUnusable(hello.public_key, software_version, spoken))
            raise ControlError(ControlRefusalCode.VERSION_MISMATCH, spoken)
        sessions = parse_session_refs(hello.open_sessions)
        self.state = State.IDENTIFYING
        self._events.append(HelloProven(hello.public_key, software_version, sessions))

    def _receive_opened(self, opened: control_pb2.StageOpened) -> None:
        pending = self._pending.pop(opened.request_id, None)
        if pending is not None:
            self._events.append(Opened(pending.request, opened))
        abandoned = self._abandoned.pop(opened.request_id, None)
        if abandoned is not None:
            self.close_stage(abandoned, "the answer came too late")

    def _receive_refused(self, refused: control_pb2.StageRefused) -> None:
        code = parse_code(refused.code)
        self._abandoned.pop(refused.request_id, None)
        pending = self._pending.pop(refused.request_id, None)
        if pending is not None:
            self._fail(pending.request, code, one_line(refused.message))

    def _abandon(self, request_id: int, code: FailureCode, message: str) -> None:
        request = self._pending.pop(request_id).request
        self._abandoned[request_id] = request.key
        if len(self._abandoned) > MAX_PENDING_OPENS:
            del self._abandoned[next(iter(self._abandoned))]
        self._fail(request, code, message)

    def _refuse_silence(self) -> None:
        if self.state is State.OPEN:
            self.refuse(ControlRefusalCode.LEASE_EXPIRED, f"no report for {self.terms.lease_ms} ms")
        else:
            self.refuse(ControlRefusalCode.HELLO_TIMEOUT, f"no valid hello within {self.terms.hello_timeout_s:g} s")

    def _close(self, message: str) -> None:
        self.state = State.CLOSED
        self._abandoned.clear()
        pending, self._pending = self._pending, {}
        for one in pending.values():
            self._fail(one.request, FailureCode.STAGE_LOST, message)

    def _fail(self, request: OpenRequest, code: str, message: str) -> None:
        self._events.append(OpenFailed(request, str(code), message))


def _parse(data: bytes) -> control_pb2.NodeMessage:
    if len(data) > MAX_CONTROL_MESSAGE_BYTES:
        limit = f"the message has {len(data)} bytes; the limit is {MAX_CONTROL_MESSAGE_BYTES}"
        raise ControlError(ControlRefusalCode.MESSAGE_TOO_LARGE, limit)
    try:
        return control_pb2.NodeMessage.FromString(data)
    except DecodeError as error:
        raise ControlError(ControlRefusalCode.MALFORMED, "the bytes are not a NodeMessage") from error
