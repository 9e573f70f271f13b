"""One stage's part of a Route Session: its edges, its waiting frames, and on the tail the generation.

Invariant: before a frame waits for the engine, it is checked against the route, the boundary contract and the positions
of the rows before it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE
from meshnet.failure_codes import FailureCode
from meshnet.frame import DType, Frame, MessageError, Phase, TokenEvent
from meshnet.frame.seam_codec import unpack_rows
from meshnet.session import ReceivingEdge, SendingEdge
from meshnet.token_window import TokenSender

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.ids import Edge
    from node_app.reference_worker.sessions.shard import StageShard
    from node_app.reference_worker.sessions.terms import StageTerms


@dataclass(frozen=True, slots=True)
class Waiting:
    """A complete frame that has waited for the engine since `received_at_s`, monotonic seconds."""

    frame: Frame
    received_at_s: float


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    """The monotonic time at which a session fails, the failure's code and message, and the stage at fault."""

    at_s: float
    code: FailureCode
    message: str
    stage: int


# If a stage closes a session, it tells the Gateway why. Its neighbours wait so long before they report it as lost.
GONE_GRACE_S = 0.25


class StageSession:
    """State of one session on this stage. Not thread-safe; owned by a `StageMachine`."""

    def __init__(self, terms: StageTerms, load: StageShard, now_s: float) -> None:
        self.terms = terms
        self.sequence = load.open_sequence(terms.kv_cells)
        self.waiting: deque[Waiting] = deque()
        self.in_step_since_s: float | None = None
        self.is_open = True
        self.heard_at_s = now_s
        self.receiving = {terms.upstream: ReceivingEdge(terms.address(terms.upstream), terms.windows[terms.upstream])}
        self.sending: dict[Edge, SendingEdge] = {}
        self.sent_at_s: dict[Edge, float] = {}
        self.tokens: TokenSender | None = None
        self.counts = Counter(terms.committed)
        self.held_token: TokenEvent | None = None
        self._load = load
        self._gone: tuple[int, float] | None = None
        self._token_frames = 0
        self._queued_length = 0
        self._prompt_done = False
        self._add_edges(now_s)

    def _add_edges(self, now_s: float) -> None:
        terms = self.terms
        if terms.is_tail:
            self.tokens = TokenSender(terms.generation, now_s)
        else:
            self.sending[terms.downstream] = SendingEdge(terms.windows[terms.downstream])
        if terms.n_stages > 1 and terms.is_tail:
            self.sending[terms.ring] = SendingEdge(terms.windows[terms.ring])
        if terms.n_stages > 1 and terms.is_head:
            self.receiving[terms.ring] = ReceivingEdge(terms.address(terms.ring), terms.windows[terms.ring])

    def queue(self, frame: Frame, now_s: float) -> None:
        """Check a complete frame and queue it for the engine.

        Raises:
            MessageError: the frame does not fit the route, the contract or the next position; the caller fails the
                session.
        """
        self._check_route(frame)
        self._check_contract(frame)
        self._check_position(frame)
        self._queued_length = frame.position + frame.rows
        if frame.phase is Phase.DECODE:
            self._token_frames = 0
        self._prompt_done = frame.phase is not Phase.PREFILL or frame.prompt_end
        self.waiting.append(Waiting(frame, now_s))

    @property
    def is_ready(self) -> bool:
        """Whether the session's first waiting frame may run now."""
        if not self.is_open or self._gone or self.in_step_since_s is not None or not self.waiting:
            return False
        downstream = self.sending.get(self.terms.downstream)
        return downstream is None or downstream.has_credit(self._output_bytes(self.waiting[0].frame))

    def note_gone(self, stage: int, now_s: float) -> None:
        """Note that the stage `stage` has closed the session; if several stages do, the first counts."""
        self._gone = self._gone or (stage, now_s)

    def note_handed_on(self, frame: Frame) -> None:
        """Note that rows were sent to the next stage; if they must lead to a token, the head begins to wait for it."""
        if not self.terms.is_head:
            return
        if frame.phase is Phase.DECODE:
            self._token_frames = 1
        elif frame.prompt_end:
            self._token_frames = self.terms.windows[self.terms.downstream].frames

    def _token_deadlines(self) -> Iterator[Deadline]:
        """Yield the deadline for the token that must come back to the head.

        There is none until the next stage has acknowledged all rows.

        Source: docs/wire.md, Time.
        """
        terms = self.terms
        if not self._token_frames or self.sending[terms.downstream].in_flight_frames:
            return
        steps_left = (terms.n_stages - 2) * self._token_frames
        patience_s = terms.step_deadline_s * steps_left + max(terms.step_deadline_s, 2 * terms.gateway_grace_s)
        at_s = self.sent_at_s[terms.downstream] + patience_s
        yield Deadline(at_s, FailureCode.STEP_TIMEOUT, "no token came back in time", terms.n_stages - 1)

    def deadlines(self) -> Iterator[Deadline]:
        """Yield one deadline for each thing that this session waits for."""
        terms = self.terms
        if self.in_step_since_s is not None:
            at_s = self.in_step_since_s + terms.step_deadline_s
            yield Deadline(at_s, FailureCode.STEP_TIMEOUT, "a step took too long", terms.stage)
        elif not self.waiting:
            at_s = self.heard_at_s + terms.idle_s
            yield Deadline(at_s, FailureCode.IDLE, "no message came for too long", terms.stage)
        for edge, sending in self.sending.items():
            if sending.in_flight_frames:
                at_s = self.sent_at_s[edge] + terms.step_deadline_s
                yield Deadline(at_s, FailureCode.STEP_TIMEOUT, "no acknowledgement of rows came in time", edge.to_stage)
        yield from self._token_deadlines()
        if self._gone is not None:
            stage, at_s = self._gone
            message = "another stage has closed the session"
            yield Deadline(at_s + GONE_GRACE_S, FailureCode.STAGE_LOST, message, stage)
        waiting_since_s = None if self.tokens is None else self.tokens.waiting_since_s()
        if waiting_since_s is not None:
            at_s = waiting_since_s + terms.gateway_grace_s
            yield Deadline(at_s, FailureCode.GATEWAY_LOST, "no acknowledgement of tokens came in time", terms.stage)

    def close(self) -> None:
        """Drop the waiting frames and close the edges. Idempotent."""
        self.is_open = False
        self.waiting.clear()
        for receiving in self.receiving.values():
            receiving.close()
        for sending in self.sending.values():
            sending.close()

    def _output_bytes(self, frame: Frame) -> int:
        if self.terms.is_tail:
            return 0
        return self.terms.codecs[self.terms.downstream].packed_bytes(frame.rows * self._load.width)

    def _check_route(self, frame: Frame) -> None:
        terms = self.terms
        on_ring = terms.is_head and frame.from_stage != GATEWAY_STAGE
        self._require(
            frame.phase is not Phase.VERIFY, FailureCode.MALFORMED, "drafts (PHASE_VERIFY) are not supported yet", frame
        )
        on_its_edge = not terms.is_head or on_ring == (frame.phase is Phase.DECODE)
        self._require(on_its_edge, FailureCode.MALFORMED, "this edge does not carry frames of this phase", frame)
        may_rewind = not on_ring and (not terms.is_head or frame.seq == 0)
        self._require(may_rewind or not frame.rewind, FailureCode.MALFORMED, "this edge carries no rewind here", frame)
        # Only the last row of a prompt and the row of a decode frame have logits.
        wants_last = frame.phase is Phase.DECODE or frame.prompt_end
        allowed = {(), (frame.rows - 1,)} if wants_last else {()}
        self._require(
            frame.logits_rows in allowed,
            FailureCode.MALFORMED,
            "logits are asked for other rows than the last one",
            frame,
        )
        if frame.phase is Phase.PREFILL:
            self._check_prompt(frame)

    def _check_prompt(self, frame: Frame) -> None:
        late = self._prompt_done and not frame.rewind
        self._require(not late, FailureCode.MALFORMED, "a prompt chunk came after the prompt's end", frame)
        if self.terms.is_head:
            prompt = self.terms.prompt_tokens + len(self.terms.committed)
            end = frame.position + frame.rows
            agreed = end <= prompt and frame.prompt_end == (end == prompt)
            self._require(agreed, FailureCode.MALFORMED, "the prompt's length is not the agreed one", frame)

    def _check_contract(self, frame: Frame) -> None:
        load = self._load
        fits = frame.rows <= load.max_step_rows
        self._require(fits, FailureCode.WRONG_SHAPE, "there are more rows than a step takes", frame)
        if load.owns_input:
            self._require(
                not frame.tensors,
                FailureCode.WRONG_SHAPE,
                "the head takes token ids only, and the frame has tensors",
                frame,
            )
            self._require(
                bool(frame.token_ids), FailureCode.MISSING_TOKEN_IDS, "this shard needs the rows' token ids", frame
            )
        else:
            self._check_tensor(frame)
        known = all(token < load.contract.vocab_size for token in frame.token_ids)
        self._require(known, FailureCode.BAD_TOKEN_ID, "a token id is outside the vocabulary", frame)
        downstream = self.terms.windows[self.terms.downstream]
        room = self.terms.is_tail or self._output_bytes(frame) <= downstream.tensor_bytes
        self._require(room, FailureCode.MESSAGE_TOO_LARGE, "the next edge's window cannot hold the rows", frame)

    def _check_tensor(self, frame: Frame) -> None:
        named = len(frame.tensors) == 1 and frame.tensors[0].name == "hidden"
        self._require(named, FailureCode.WRONG_SHAPE, "the frame does not have the contract's tensors", frame)
        tensor = frame.tensors[0]
        agreed = tensor.dtype is DType.F32 and tensor.codec is self.terms.codecs[self.terms.upstream]
        self._require(
            agreed,
            FailureCode.WRONG_DTYPE,
            "the tensor does not have the contract's element type and the seam's codec",
            frame,
        )
        self._require(
            tensor.shape[1] == self._load.width,
            FailureCode.WRONG_SHAPE,
            "the rows do not have the shard's width",
            frame,
        )
        try:
            unpack_rows(tensor.codec, tensor.data)
        except MessageError as error:
            raise MessageError(FailureCode(error.code), error.message, frame.address) from error

    def _check_position(self, frame: Frame) -> None:
        began = self.tokens is not None and self.tokens.next_index > len(self.terms.committed)
        at_end = frame.position == self._queued_length
        may_rewind = frame.rewind and frame.position < self._queued_length and not began
        self._require(
            at_end or may_rewind, FailureCode.WRONG_POSITION, "the rows do not begin at the stage's length", frame
        )
        end = frame.position + frame.rows
        self._require(end <= self._load.context_length, FailureCode.CONTEXT_FULL, "the context is full", frame)
        self._require(
            end <= self.terms.kv_cells, FailureCode.KV_EXHAUSTED, "there are more rows than the session reserved", frame
        )

    @staticmethod
    def _require(condition: bool, code: FailureCode, message: str, frame: Frame) -> None:
        if not condition:
            raise MessageError(code, message, frame.address)
