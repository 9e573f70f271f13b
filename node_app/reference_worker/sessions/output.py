"""Sends the output of a step: rows to the next stage, tokens to the head and to the Gateway.

Invariants: frames (rows for the next stage, tokens for the head) are queued before acknowledgements and token events,
since the next stage waits for the frames. A token goes to the head only if the Gateway has acknowledged enough earlier
tokens (the token window) and the ring has credit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import (
    DType,
    EdgeBody,
    EdgeMessage,
    Frame,
    Phase,
    PrefillProgress,
    StageResidence,
    Tensor,
    TokenEvent,
    fragment_frame,
)
from meshnet.frame.seam_codec import pack_rows
from meshnet.ids import Edge

if TYPE_CHECKING:
    from node_app.reference_worker.sessions.session import StageSession, Waiting
    from node_app.reference_worker.sessions.shard import Outcome

Message = Frame | EdgeMessage
MICROSECONDS_PER_S = 1_000_000
_F32_BYTES = 4


class StageOutput:
    """Makes the messages that a step causes, and appends them to the machine's outgoing messages."""

    def __init__(self, outgoing: list[Message]) -> None:
        self._outgoing = outgoing

    def send_rows(
        self, session: StageSession, waiting: Waiting, outcome: Outcome, taken_at_s: float, now_s: float
    ) -> None:
        """Send a step's rows to the next stage, in fragments if they are too large for one frame."""
        taken, terms = waiting.frame, session.terms
        width = len(outcome.rows) // (_F32_BYTES * taken.rows)
        codec = terms.codecs[terms.downstream]
        data = pack_rows(codec, outcome.rows)
        wants_logits = taken.prompt_end or taken.phase is not Phase.PREFILL
        frame = replace(
            taken,
            from_stage=terms.stage,
            to_stage=terms.stage + 1,
            seq=session.sending[terms.downstream].send(len(data)),
            token_ids=(),
            tensors=(Tensor("hidden", DType.F32, (taken.rows, width), codec, data),),
            logits_rows=(taken.rows - 1,) if wants_logits else (),
            budget_ms=_remaining_ms(taken.budget_ms, now_s - waiting.received_at_s),
            residence=_residence(session, waiting, taken_at_s, now_s),
        )
        session.note_handed_on(frame)
        self._mark_sent(session, terms.downstream, now_s)
        self._outgoing.extend(fragment_frame(frame))

    def send_token(
        self, session: StageSession, waiting: Waiting, outcome: Outcome, taken_at_s: float, now_s: float
    ) -> None:
        """Send the token that the step drew, if any, to the Gateway and, unless it ends the generation, to the head.

        If the step ran a prompt chunk, the Gateway is also told how much of the prompt is done.
        """
        if session.tokens is None:
            raise ValueError("only the tail draws tokens")
        residence = _residence(session, waiting, taken_at_s, now_s)
        event: TokenEvent | None = None
        if outcome.drawn is not None:
            event = session.tokens.commit(replace(outcome.drawn, residence=residence), now_s)
            session.counts[event.token_id] += 1
            session.held_token = None if session.tokens.is_finished else event
            self.release_token(session, now_s)
        if waiting.frame.phase is Phase.PREFILL:
            done = waiting.frame.position + waiting.frame.rows
            self._tell_gateway(session, PrefillProgress(done, residence))
        if event is not None:
            self._tell_gateway(session, self.told(event))

    def release_token(self, session: StageSession, now_s: float) -> None:
        """Send the token that was held back to the head, if the token window and the ring's credit allow it now."""
        token, terms = session.held_token, session.terms
        if token is None or session.tokens is None or not session.tokens.has_window:
            return
        ring = session.sending.get(terms.ring)
        if ring is not None and not ring.has_credit():
            return
        session.held_token = None
        frame = Frame(
            session=terms.key.session,
            epoch=terms.key.epoch,
            from_stage=terms.stage,
            to_stage=0,
            seq=0 if ring is None else ring.send(),
            phase=Phase.DECODE,
            position=token.position,
            rows=1,
            token_ids=(token.token_id,),
            budget_ms=round(terms.step_deadline_s * 1000) * terms.n_stages,
        )
        if ring is None:
            # A route of one stage: the ring never leaves the worker.
            session.queue(frame, now_s)
            return
        self._mark_sent(session, terms.ring, now_s)
        self._outgoing.append(frame)

    def resend_tokens(self, session: StageSession) -> None:
        """Send again all token events that the Gateway has not acknowledged."""
        for event in () if session.tokens is None else session.tokens.unacknowledged:
            self._tell_gateway(session, self.told(event))

    def told(self, event: TokenEvent) -> TokenEvent | None:
        """Return the token event to send to the Gateway. A subclass may return another one, or None to send nothing."""
        return event

    def _tell_gateway(self, session: StageSession, body: EdgeBody | None) -> None:
        if body is not None:
            edge = Edge(session.terms.stage, GATEWAY_STAGE)
            self._outgoing.append(EdgeMessage.on(session.terms.address(edge), body))

    @staticmethod
    def _mark_sent(session: StageSession, edge: Edge, now_s: float) -> None:
        # The deadline of an edge begins with the first frame in flight, and again with every acknowledgement.
        if session.sending[edge].in_flight_frames == 1:
            session.sent_at_s[edge] = now_s


def _residence(session: StageSession, waiting: Waiting, taken_at_s: float, now_s: float) -> tuple[StageResidence, ...]:
    queue_us = round((taken_at_s - waiting.received_at_s) * MICROSECONDS_PER_S)
    compute_us = round((now_s - taken_at_s) * MICROSECONDS_PER_S)
    return (*waiting.frame.residence, StageResidence(session.terms.stage, queue_us, compute_us, 0))


def _remaining_ms(budget_ms: int, spent_s: float) -> int:
    """Return the rest of a frame's time budget in milliseconds. Since 0 means no limit, a used-up budget is 1."""
    return 0 if budget_ms == 0 else max(1, budget_ms - int(spent_s * 1000))
