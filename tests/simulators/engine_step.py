"""What a simulated engine computes in one step of one session.

Invariant: a step changes its session's sequence and nothing else; what is wrong with it is in `Outcome.failure`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from meshnet.failure_codes import FailureCode
from meshnet.fake import MODULUS, Row, logits_of, pack_rows, unpack_rows
from meshnet.frame import Frame, Phase, TokenEvent, seam_codec
from meshnet.sampling import log_probability, sample, top_log_probabilities
from tests.simulators.faults import Faults
from tests.simulators.stage_session import StageSession


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rows for the next stage, or a drawn token on the tail (None where no logits were wanted), or a failure."""

    rows: tuple[Row, ...] = ()
    drawn: TokenEvent | None = None
    failure: FailureCode | None = None


def run_step(session: StageSession, frame: Frame, faults: Faults) -> Outcome:
    """Run one frame's rows through the shard."""
    if reaches(faults.fail_at_position, frame):
        return Outcome(failure=FailureCode.ENGINE_FAILED)
    if frame.rewind:
        session.sequence.truncate(frame.position)
    if session.terms.is_head:
        rows = session.sequence.step_tokens(frame.token_ids)
    else:
        try:
            tensor = frame.tensors[0]
            taken = unpack_rows(seam_codec.unpack_rows(tensor.codec, tensor.data), tensor.shape[1])
        except ValueError:
            return Outcome(failure=FailureCode.NOT_FINITE)
        rows = session.sequence.step_rows(taken)
    if not session.terms.is_tail:
        return Outcome(rows=tuple(_garbled(row) if faults.garble_rows else row for row in rows))
    wants_logits = frame.phase is not Phase.PREFILL or frame.prompt_end
    return Outcome(drawn=_draw(session, rows[-1], frame.position + frame.rows) if wants_logits else None)


def hidden_bytes(outcome: Outcome) -> bytes:
    """The rows as they cross a seam."""
    return pack_rows(outcome.rows)


def reaches(position: int, frame: Frame) -> bool:
    """Whether a fault set for `position` (negative: none) concerns a frame."""
    return 0 <= position < frame.position + frame.rows


def spoiled(event: TokenEvent, faults: Faults) -> TokenEvent | None:
    """The event as a lying tail sends it; None where it swallows it."""
    if event.index == faults.skip_token_at_index:
        return None
    return replace(event, token_id=2**31 - 1) if event.index == faults.bad_token_at_index else event


def _draw(session: StageSession, row: Row, position: int) -> TokenEvent:
    terms = session.terms.sampling
    logits = logits_of(row)
    token_id = sample(logits, terms, session.counts, position)
    return TokenEvent(
        index=0,
        token_id=token_id,
        position=position,
        choice=terms.choice,
        logprob=log_probability(logits, token_id) if terms.logprobs else None,
        top_logprobs=top_log_probabilities(logits, terms.top_logprobs) if terms.logprobs else (),
    )


def _garbled(row: Row) -> Row:
    return tuple((value + 1) % MODULUS for value in row)
