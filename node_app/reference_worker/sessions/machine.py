"""One shard's sessions as a state machine without I/O: messages, steps and ticks go in, messages come out.

Invariants: an admitted session is removed once and its KV cells are freed once. A frame is run once. Nothing here
blocks or reads a clock: the caller passes `now_s`, monotonic seconds. It decides as the native worker's StageMachine
does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE
from meshnet.failure_codes import FailureCode
from meshnet.frame import (
    Ack,
    Close,
    EdgeBody,
    EdgeMessage,
    Frame,
    MessageError,
    SessionGone,
    StageFailure,
    TokenEvent,
    read_edge_message,
    read_frame,
)
from meshnet.ids import Address, Edge, SessionKey
from meshnet.session import Delivered, Repeated, Stray
from node_app.reference_worker.sessions.closed_sessions import ClosedSessions
from node_app.reference_worker.sessions.output import Message, StageOutput
from node_app.reference_worker.sessions.session import StageSession, Waiting
from node_app.reference_worker.sessions.terms import parse_terms

if TYPE_CHECKING:
    from meshnet.v1 import frame_pb2, session_pb2
    from node_app.reference_worker.sessions.shard import Outcome, StageShard


@dataclass(frozen=True, slots=True)
class EngineStep:
    """The first waiting frame of a session, taken from the queue at `taken_at_s` (monotonic) to be run."""

    session: StageSession
    waiting: Waiting
    taken_at_s: float


class StageMachine:
    """State of all sessions on one shard. Not thread-safe; owned by one event loop."""

    def __init__(self, load: StageShard, output: type[StageOutput] = StageOutput) -> None:
        self.load = load
        self.sessions: dict[bytes, StageSession] = {}
        self.counters: Counter[str] = Counter()
        self._closed = ClosedSessions()
        self._outgoing: list[Message] = []
        self._output = output(self._outgoing)

    @property
    def kv_cells_reserved(self) -> int:
        """KV cells that are reserved for the open sessions."""
        return sum(session.terms.kv_cells for session in self.sessions.values())

    def open(self, spec: session_pb2.SessionSpec, now_s: float) -> None:
        """Admit a session; if an older epoch of it is open, close that first.

        Raises:
            MessageError: the session is refused; the reply gets the error's code.
        """
        terms = parse_terms(spec, self.load)
        older = self.sessions.get(terms.key.session)
        if older is not None and older.terms.key.epoch < terms.key.epoch:
            self._remove(older, now_s)
        self._check_admission(terms.key, terms.kv_cells, now_s)
        self.sessions[terms.key.session] = StageSession(terms, self.load, now_s)

    def close(self, key: SessionKey, now_s: float) -> bool:
        """Close the session if it is open with epoch `key.epoch` or an older one; return whether it was.

        None of these epochs can be opened again for CLOSED_MEMORY_S.
        """
        session = self.sessions.get(key.session)
        was_open = session is not None and session.terms.key.epoch <= key.epoch
        if session is not None and was_open:
            self._remove(session, now_s)
        self._closed.mark(key, now_s)
        return was_open

    def receive_frame(self, message: frame_pb2.Frame, now_s: float) -> None:
        """Queue a frame from the bridge for the engine; if the frame breaks a rule of its session, that session fails.

        Raises:
            MessageError: the frame breaks a rule for which its sender must be disconnected.
        """
        self.counters["frames_received"] += 1
        try:
            frame = read_frame(message)
        except MessageError as error:
            self.counters["frames_refused"] += 1
            self._fail_for(error, now_s)
            return
        session = self._find(frame.address)
        if session is None:
            self.counters["frames_stray"] += 1
            self._answer_gone(frame.address)
            return
        if frame.edge not in session.receiving:
            raise MessageError(FailureCode.EDGE_NOT_PERMITTED, "the sender may not use this edge", frame.address)
        session.heard_at_s = now_s
        try:
            self._deliver(session, frame, now_s)
        except MessageError as error:
            self.counters["frames_refused"] += 1
            self._fail_for(error, now_s)

    def receive_edge(self, message: session_pb2.EdgeMessage, now_s: float) -> None:
        """Handle an edge message from the bridge: an acknowledgement, a close, or that a peer closed the session.

        Raises:
            MessageError: the message breaks a rule for which its sender must be disconnected.
        """
        try:
            read = read_edge_message(message)
        except MessageError as error:
            self._fail_for(error, now_s)
            return
        session = self._find(read.address)
        if session is None:
            return
        session.heard_at_s = now_s
        answered = isinstance(read.body, Ack | SessionGone)
        sender = read.to_stage if answered else read.from_stage
        match read.body:
            case Ack():
                self._acknowledge(session, read.edge, read.body, now_s)
            case SessionGone() if sender == GATEWAY_STAGE:
                self.fail(session, FailureCode.GATEWAY_LOST, "the Gateway has closed the session", sender, now_s)
            case SessionGone():
                session.note_gone(sender, now_s)
            case Close():
                self._remove(session, now_s)

    def attach_bridge(self) -> None:
        """Note that a bridge has begun: send all unacknowledged token events again, in order."""
        self._outgoing[:] = [message for message in self._outgoing if not _is_token(message)]
        for session in self.sessions.values():
            self._output.resend_tokens(session)

    def take_steps(self, now_s: float) -> list[EngineStep]:
        """Take the first waiting frame of every session that may run one, and return these frames as steps."""
        steps = []
        for session in self.sessions.values():
            if session.is_ready:
                session.in_step_since_s = now_s
                steps.append(EngineStep(session, session.waiting.popleft(), now_s))
        return steps

    def commit(self, step: EngineStep, outcome: Outcome, now_s: float) -> None:
        """Send the rows or the token of a finished step, and acknowledge its frame.

        If the engine failed, the session fails instead. If the session has ended meanwhile, nothing is sent.
        """
        session, frame = step.session, step.waiting.frame
        self.counters["steps"] += 1
        self.counters["rows"] += frame.rows
        session.in_step_since_s = None
        if not session.is_open:
            return
        session.heard_at_s = now_s
        if outcome.failure is not None:
            self.fail(session, outcome.failure, "the engine failed", session.terms.stage, now_s)
            return
        if session.terms.is_tail:
            self._output.send_token(session, step.waiting, outcome, step.taken_at_s, now_s)
        else:
            self._output.send_rows(session, step.waiting, outcome, step.taken_at_s, now_s)
        edge = session.receiving.get(frame.edge)
        if edge is not None:
            self._send(session, frame.edge, edge.consume(frame.seq))

    def tick(self, now_s: float) -> float | None:
        """Fail the sessions whose deadlines have passed; return the nearest remaining deadline, or None."""
        deadlines = []
        for session in list(self.sessions.values()):
            nearest = min(session.deadlines(), default=None)
            if nearest is None:
                continue
            if nearest.at_s <= now_s:
                self.fail(session, nearest.code, nearest.message, nearest.stage, now_s)
            else:
                deadlines.append(nearest.at_s)
        return min(deadlines, default=None)

    def take_outgoing(self) -> list[Message]:
        """Return the messages that were queued since the last call, and forget them."""
        taken = list(self._outgoing)
        self._outgoing.clear()
        return taken

    def fail(self, session: StageSession, code: FailureCode, message: str, stage: int, now_s: float) -> None:
        """End a session, and tell the Gateway the failure and the stage at fault.

        The stages that send to this one are told that the session has ended here.
        """
        at_fault = session.terms.stage if stage == GATEWAY_STAGE else stage
        own = session.terms.stage
        self._send(session, Edge(own, GATEWAY_STAGE), StageFailure(code.value, message, at_fault))
        # If this stage cannot reach the Gateway, its neighbours can, so the stages that send to it are told as well.
        for edge in session.receiving:
            if edge.from_stage != GATEWAY_STAGE:
                self._send(session, edge, SessionGone(code.value))
        self._remove(session, now_s)

    def _check_admission(self, key: SessionKey, kv_cells: int, now_s: float) -> None:
        if self._closed.holds(key, now_s):
            raise MessageError(FailureCode.OLD_EPOCH, "this attempt or a later one was closed")
        if key.session in self.sessions:
            same = self.sessions[key.session].terms.key == key
            raise MessageError(FailureCode.SESSION_EXISTS if same else FailureCode.OLD_EPOCH, "the session is open")
        if len(self.sessions) >= self.load.max_sessions:
            raise MessageError(FailureCode.TOO_MANY_SESSIONS, "all sequences are in use")
        if self.kv_cells_reserved + kv_cells > self.load.kv_cells:
            raise MessageError(FailureCode.KV_EXHAUSTED, "not enough KV cells are free for prompt and answer")

    def _deliver(self, session: StageSession, frame: Frame, now_s: float) -> None:
        edge = session.receiving[frame.edge]
        match edge.receive(frame):
            case Delivered(whole):
                session.queue(whole, now_s)
            case Repeated(ack):
                self.counters["frames_repeated"] += 1
                self._send(session, frame.edge, ack)
            case Stray():
                self._answer_gone(frame.address)

    def _acknowledge(self, session: StageSession, edge: Edge, ack: Ack, now_s: float) -> None:
        try:
            if session.tokens is not None and edge == session.terms.downstream:
                session.tokens.acknowledge(ack, now_s)
            elif edge in session.sending:
                session.sending[edge].acknowledge(ack)
                session.sent_at_s[edge] = now_s
            else:
                raise MessageError(FailureCode.MALFORMED, "an acknowledgement came on an edge that carries no frames")  # noqa: TRY301
        except MessageError as error:
            self.fail(session, FailureCode(error.code), error.message, edge.to_stage, now_s)
            return
        self._output.release_token(session, now_s)

    def _find(self, address: Address) -> StageSession | None:
        session = self.sessions.get(address.key.session)
        return session if session is not None and session.terms.key == address.key else None

    def _fail_for(self, error: MessageError, now_s: float) -> None:
        """Fail the session that a faulty message named; if the sender must be disconnected, raise the error instead."""
        session = None if error.address is None else self._find(error.address)
        if error.closes_connection or error.address is None:
            raise error
        if session is not None:
            self.fail(session, FailureCode(error.code), error.message, error.address.edge.from_stage, now_s)

    def _answer_gone(self, address: Address) -> None:
        session = self.sessions.get(address.key.session)
        is_old = session is not None and session.terms.key.epoch > address.key.epoch
        code = FailureCode.OLD_EPOCH if is_old else FailureCode.UNKNOWN_SESSION
        self._outgoing.append(EdgeMessage.on(address, SessionGone(code.value)))

    def _remove(self, session: StageSession, now_s: float) -> None:
        session.close()
        self.sessions.pop(session.terms.key.session, None)
        self._closed.mark(session.terms.key, now_s)

    def _send(self, session: StageSession, edge: Edge, body: EdgeBody | None) -> None:
        if body is not None:
            self._outgoing.append(EdgeMessage.on(session.terms.address(edge), body))


def _is_token(message: Message) -> bool:
    return isinstance(message, EdgeMessage) and isinstance(message.body, TokenEvent)
