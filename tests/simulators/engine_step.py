"""What a simulated engine computes in one step of one session.

Invariant: a step changes its session's sequence and nothing else; what is wrong with it is in `Outcome.failure`.
"""

from __future__ import annotations

from dataclasses import replace

from meshnet.failure_codes import FailureCode
from meshnet.frame import Frame, Phase, TokenEvent, seam_codec
from node_app.reference_worker.sessions.drawing import draw
from node_app.reference_worker.sessions.session import StageSession
from node_app.reference_worker.sessions.shard import Outcome
from tests.simulators.fake_engine import MODULUS, FakeSequence, Row, logits_of, pack_rows, unpack_rows
from tests.simulators.faults import Faults


def run_step(session: StageSession, frame: Frame, faults: Faults) -> Outcome:
    """Run one frame's rows through the shard.

    Raises:
        TypeError: the session's sequence is not of the fake engine.
    """
    sequence = session.sequence
    if not isinstance(sequence, FakeSequence):
        raise TypeError(f"a sequence of the fake engine is needed, not {type(sequence).__name__}")
    if reaches(faults.fail_at_position, frame):
        return Outcome(failure=FailureCode.ENGINE_FAILED)
    if frame.rewind:
        sequence.truncate(frame.position)
    if session.terms.is_head:
        rows = sequence.step_tokens(frame.token_ids)
    else:
        try:
            tensor = frame.tensors[0]
            taken = unpack_rows(seam_codec.unpack_rows(tensor.codec, tensor.data), tensor.shape[1])
        except ValueError:
            return Outcome(failure=FailureCode.NOT_FINITE)
        rows = sequence.step_rows(taken)
    if not session.terms.is_tail:
        return Outcome(rows=pack_rows([_garbled(row) if faults.garble_rows else row for row in rows]))
    wants_logits = frame.phase is not Phase.PREFILL or frame.prompt_end
    return Outcome(drawn=draw(session, logits_of(rows[-1]), frame.position + frame.rows) if wants_logits else None)


def reaches(position: int, frame: Frame) -> bool:
    """Whether a fault set for `position` (negative: none) concerns a frame."""
    return 0 <= position < frame.position + frame.rows


def spoiled(event: TokenEvent, faults: Faults) -> TokenEvent | None:
    """The event as a lying tail sends it; None where it swallows it."""
    if event.index == faults.skip_token_at_index:
        return None
    return replace(event, token_id=2**31 - 1) if event.index == faults.bad_token_at_index else event


def _garbled(row: Row) -> Row:
    return tuple((value + 1) % MODULUS for value in row)
