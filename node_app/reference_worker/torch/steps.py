"""Runs the rows of a frame or of a probe through TorchEngine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from meshnet.errors import WorkerError
from meshnet.failure_codes import FailureCode
from meshnet.frame import Phase, seam_codec
from meshnet.v1 import frame_pb2, worker_pb2
from node_app.reference_worker.sessions.drawing import draw
from node_app.reference_worker.sessions.shard import Outcome
from node_app.reference_worker.torch.engine import TorchSequence

if TYPE_CHECKING:
    from meshnet.frame import Frame
    from node_app.reference_worker.sessions.machine import EngineStep
    from node_app.reference_worker.torch.engine import TorchEngine
    from node_app.reference_worker.torch.shard import TorchShard


def run_step(step: EngineStep) -> Outcome:
    """Run the rows of a step's frame through the engine; return the output rows, the drawn token or the failure."""
    session, frame = step.session, step.waiting.frame
    sequence = session.sequence
    if not isinstance(sequence, TorchSequence):
        raise TypeError("a sequence of another engine")
    engine = sequence.engine
    if frame.rewind:
        sequence.truncate(frame.position)
    try:
        rows = _run(sequence, frame)
    except WorkerError as error:
        return Outcome(failure=FailureCode(error.code))
    if not engine.owns_output:
        return Outcome(rows=_to_bytes(rows))
    if frame.phase is Phase.PREFILL and not frame.prompt_end:
        return Outcome()
    logits = engine.logits(rows[-1:])[0].tolist()
    try:
        return Outcome(drawn=draw(session, logits, frame.position + frame.rows))
    except ValueError:
        return Outcome(failure=FailureCode.NOT_FINITE)


def run_probe(shard: TorchShard, request: worker_pb2.ProbeRequest) -> list[frame_pb2.Tensor]:
    """Run the request's token ids or rows through the shard, in a sequence of their own, and return the output rows.

    If a shard without layer 0 gets only token ids, its input rows are zeros. It refuses the same requests as the native
    worker, so that a caller's mistake shows with both.

    Raises:
        WorkerError: `bad_token_id`, `wrong_dtype`, `wrong_shape`, `wrong_size` or `not_finite`.
    """
    engine = shard.engine
    n_rows = _probe_length(shard, request)
    hidden = engine.embed(request.token_ids or [1]) if engine.owns_input else _probe_rows(engine, request, n_rows)
    sequence = engine.open(len(hidden))
    rows = torch.cat([sequence.step_rows(part) for part in hidden.split(request.step_rows or len(hidden))])
    name, output = ("logits", engine.logits(rows)) if engine.owns_output else ("hidden", rows)
    return [
        frame_pb2.Tensor(
            name=name,
            dtype=frame_pb2.DTYPE_F32,
            shape=list(output.shape),
            codec=frame_pb2.CODEC_RAW,
            data=_to_bytes(output),
        )
    ]


def _run(sequence: TorchSequence, frame: Frame) -> torch.Tensor:
    if sequence.engine.owns_input:
        return sequence.step_tokens(frame.token_ids)
    tensor = frame.tensors[0]
    return sequence.step_rows(_from_bytes(seam_codec.unpack_rows(tensor.codec, tensor.data), tensor.shape[1]))


def _probe_length(shard: TorchShard, request: worker_pb2.ProbeRequest) -> int:
    has_rows = bool(request.tensors) and len(request.tensors[0].shape) == 2
    rows = request.tensors[0].shape[0] if has_rows else max(1, len(request.token_ids))
    longest = min(shard.max_step_rows, shard.context_length)
    if not 0 < rows <= longest:
        raise WorkerError(FailureCode.WRONG_SHAPE, "Bad probe", f"{rows} rows instead of 1 to {longest}")
    ids = len(request.token_ids) or int(shard.owns_input)
    if ids not in {0, rows}:
        raise WorkerError(FailureCode.WRONG_SHAPE, "Bad probe", f"{ids} token ids for {rows} rows")
    return rows


def _probe_rows(engine: TorchEngine, request: worker_pb2.ProbeRequest, rows: int) -> torch.Tensor:
    width = engine.facts.width
    if not request.tensors:
        return torch.zeros(rows, width)
    tensor = request.tensors[0]
    if tensor.dtype != frame_pb2.DTYPE_F32 or tensor.codec != frame_pb2.CODEC_RAW:
        raise WorkerError(FailureCode.WRONG_DTYPE, "Bad probe", "a probe takes raw f32 rows only")
    if list(tensor.shape) != [rows, width]:
        raise WorkerError(FailureCode.WRONG_SHAPE, "Bad probe", f"rows of the shape {list(tensor.shape)}")
    if len(tensor.data) != 4 * rows * width:
        raise WorkerError(FailureCode.WRONG_SIZE, "Bad probe", f"{len(tensor.data)} bytes for {rows} rows of {width}")
    return _from_bytes(tensor.data, width)


def _from_bytes(data: bytes, width: int) -> torch.Tensor:
    """Return the f32 tensor [rows, width] whose little-endian bytes are `data`."""
    # Copied, since torch warns if the memory is read-only.
    return torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(-1, width)


def _to_bytes(rows: torch.Tensor) -> bytes:
    return bytes(rows.contiguous().numpy().tobytes())
