"""The member's side of a connection to the relay, without I/O.

The caller passes each WebSocket message that arrives to `receive` and acts on `events()`. It writes each entry of
`data_to_send()` as one WebSocket message, in order.

Invariants: pure. Until the relay has sent its welcome, nothing but the proof of the key is sent. A binding ends if the
relay refuses it or ends its session, if the member unbinds it, or if the connection closes. After the connection closed
there are no bindings and nothing to send. It is not thread-safe; one caller owns it. Source: docs/wire.md, Relay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from meshnet.constants import MAX_MESSAGE_BYTES
from meshnet.errors import ProtocolError
from meshnet.failure_codes import TITLES, FailureCode
from meshnet.frame.refusal import MessageError
from meshnet.keys import SignatureContext, relay_proof_message
from meshnet.member_events import (
    SESSION_ENDING_CODES,
    TRANSITIONS,
    Action,
    Binding,
    BindRefused,
    Bound,
    Closed,
    Input,
    MemberEvent,
    MemberState,
    PacketRefused,
    PacketsReceived,
    Ready,
    SessionEnded,
    StageLost,
)
from meshnet.packets import Packet, read_packet, read_session_key, split_batches, write_batch
from meshnet.v1 import relay_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.ids import SessionKey
    from meshnet.keys import SigningKey

# With a shorter challenge, an old signature might fit by chance. Source: relay.proto.
NONCE_BYTES = 32


class RelayMember:
    """Proves its key to the relay; after the relay's welcome it takes part in sessions and exchanges packets."""

    def __init__(self, signing_key: SigningKey) -> None:
        self._signing_key = signing_key
        self._message_max_bytes = MAX_MESSAGE_BYTES
        self._bindings: dict[Binding, bool] = {}  # the value is true once the relay has confirmed the binding
        self._events: list[MemberEvent] = []
        self._outgoing: list[relay_pb2.MemberMessage | Packet] = []
        self.state = MemberState.AWAITING_CHALLENGE
        self.relay_id = ""
        self.stray_packets = 0

    @property
    def bindings(self) -> frozenset[Binding]:
        """The bindings that this member has asked for and not lost, whether the relay has confirmed them or not."""
        return frozenset(self._bindings)

    def is_bound(self, binding: Binding) -> bool:
        """Tell if the relay has confirmed this binding."""
        return self._bindings.get(binding, False)

    def receive(self, data: bytes) -> None:
        """Take one message from the relay. It never raises; if the bytes are wrong, `events()` gives `Closed`."""
        if self.state is MemberState.CLOSED:
            return
        try:
            message, kind = _parse(data)
            self._apply(TRANSITIONS[self.state, kind], message)
        except MessageError as error:
            self._close(error.code, error.message)

    def _apply(self, action: Action, message: relay_pb2.RelayMessage) -> None:
        match action:
            case Action.PROVE:
                self._prove(message.challenge)
            case Action.OPEN:
                self._open(message.welcome)
            case Action.CONFIRM:
                self._confirm(message.bound)
            case Action.REFUSE:
                self._refuse(message.refusal)
            case Action.DISMISS:
                self._close(message.refusal.code, message.refusal.message)
            case Action.LOSE:
                self._lose(message.lost)
            case Action.DELIVER:
                self._deliver(message.packets)
            case Action.REJECT:
                raise MessageError(FailureCode.MALFORMED, f"the relay sent {message.WhichOneof('body')} out of turn")
            case Action.IGNORE:
                pass

    def bind(self, binding: Binding, signed_ticket: bytes) -> None:
        """Ask to take part in a session. The answer is the event `Bound` or `BindRefused`.

        Raises:
            ProtocolError: the connection is not open, or this binding already exists.
        """
        self._require_ready()
        if binding in self._bindings:
            raise ProtocolError(
                FailureCode.SESSION_EXISTS, TITLES[FailureCode.SESSION_EXISTS], f"{binding.key} is bound already"
            )
        self._bindings[binding] = False
        self._outgoing.append(relay_pb2.MemberMessage(bind=relay_pb2.Bind(signed_ticket=signed_ticket)))

    def unbind(self, binding: Binding) -> None:
        """Leave the session of a binding. Idempotent, and allowed after the connection closed."""
        if self._bindings.pop(binding, None) is None:
            return
        key = binding.key
        body = relay_pb2.Unbind(session=key.session, epoch=key.epoch, stage=binding.stage)
        self._outgoing.append(relay_pb2.MemberMessage(unbind=body))

    def send(self, packets: Iterable[Packet]) -> None:
        """Queue packets of bound sessions in order. The caller must not exceed the windows of their edges.

        Raises:
            ProtocolError: the connection is not open, or a packet's session is not bound; then nothing was queued.
        """
        self._require_ready()
        queued = list(packets)
        for packet in queued:
            if not self.is_bound(Binding(packet.key, packet.from_stage)):
                title = TITLES[FailureCode.UNKNOWN_SESSION]
                raise ProtocolError(FailureCode.UNKNOWN_SESSION, title, f"{packet.key} is not bound here")
        self._outgoing.extend(queued)

    def connection_lost(self) -> None:
        """Record that the connection is gone. Idempotent."""
        if self.state is not MemberState.CLOSED:
            self._close("connection_lost", "The connection to the relay is lost.")

    def events(self) -> list[MemberEvent]:
        """Return the events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def data_to_send(self) -> list[bytes]:
        """Return the messages to write, in order; successive packets share a message as far as they fit."""
        outgoing, self._outgoing = self._outgoing, []
        messages: list[bytes] = []
        run: list[Packet] = []
        for item in outgoing:
            if isinstance(item, Packet):
                run.append(item)
                continue
            messages.extend(self._serialise(run))
            run = []
            messages.append(item.SerializeToString())
        messages.extend(self._serialise(run))
        return messages

    def _serialise(self, run: list[Packet]) -> Iterable[bytes]:
        for batch in split_batches(run, self._message_max_bytes):
            yield relay_pb2.MemberMessage(packets=write_batch(batch)).SerializeToString()

    def _require_ready(self) -> None:
        if self.state is not MemberState.READY:
            raise ProtocolError("relay_unavailable", "Relay unavailable", "The connection to the relay is not open.")

    def _close(self, code: str, message: str) -> None:
        self.state = MemberState.CLOSED
        self._bindings.clear()
        self._outgoing.clear()
        self._events.append(Closed(code, message))

    def _prove(self, challenge: relay_pb2.RelayChallenge) -> None:
        if len(challenge.nonce) != NONCE_BYTES:
            raise MessageError(FailureCode.MALFORMED, f"the challenge has {len(challenge.nonce)} bytes")
        self.relay_id = challenge.relay_id
        signed = relay_proof_message(challenge.relay_id, challenge.nonce)
        proof = relay_pb2.MemberProof(
            public_key=self._signing_key.public_key, signature=self._signing_key.sign(SignatureContext.RELAY, signed)
        )
        self._outgoing.append(relay_pb2.MemberMessage(proof=proof))
        self.state = MemberState.AWAITING_WELCOME

    def _open(self, welcome: relay_pb2.RelayWelcome) -> None:
        self._message_max_bytes = min(welcome.message_max_bytes or MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES)
        self.state = MemberState.READY
        self._events.append(Ready(self.relay_id, self._message_max_bytes, welcome.keepalive_ms))

    def _confirm(self, bound: relay_pb2.Bound) -> None:
        binding = Binding(read_session_key(bound.session, bound.epoch), bound.stage)
        # The relay also answers a binding that was unbound while its answer was on the way.
        if self._bindings.get(binding) is False:
            self._bindings[binding] = True
            self._events.append(Bound(binding))

    def _refuse(self, refusal: relay_pb2.RelayRefusal) -> None:
        key = read_session_key(refusal.session, refusal.epoch)
        binding = Binding(key, refusal.stage)
        if self._bindings.get(binding) is False:
            del self._bindings[binding]
            self._events.append(BindRefused(binding, refusal.code, refusal.message))
        elif not self._takes_part(key):
            pass  # it is about a session that this member has left
        elif refusal.code in SESSION_ENDING_CODES:
            self._bindings = {one: is_bound for one, is_bound in self._bindings.items() if one.key != key}
            self._events.append(SessionEnded(key, refusal.stage, refusal.code, refusal.message))
        else:
            self._events.append(PacketRefused(key, refusal.stage, refusal.code, refusal.message))

    def _lose(self, lost: relay_pb2.MemberLost) -> None:
        key = read_session_key(lost.session, lost.epoch)
        if self._takes_part(key):
            self._events.append(StageLost(key, lost.stage))

    def _deliver(self, batch: relay_pb2.PacketBatch) -> None:
        packets = [read_packet(packet) for packet in batch.packets]
        wanted = tuple(one for one in packets if self.is_bound(Binding(one.key, one.to_stage)))
        self.stray_packets += len(packets) - len(wanted)
        if wanted:
            self._events.append(PacketsReceived(wanted))

    def _takes_part(self, key: SessionKey) -> bool:
        return any(binding.key == key for binding in self._bindings)


def _parse(data: bytes) -> tuple[relay_pb2.RelayMessage, Input]:
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageError(FailureCode.MESSAGE_TOO_LARGE, f"{len(data)} bytes exceed {MAX_MESSAGE_BYTES}")
    try:
        message = relay_pb2.RelayMessage.FromString(data)
    except DecodeError as error:
        raise MessageError(FailureCode.MALFORMED, "the bytes are not a relay message") from error
    body = message.WhichOneof("body")
    if body is None:
        raise MessageError(FailureCode.MALFORMED, "a relay message has no body")
    return message, Input.DISMISSAL if body == "refusal" and message.refusal.fatal else Input(body)
