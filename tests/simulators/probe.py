"""Rows through the loaded shard in a private sequence."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TypeVar

from meshnet.errors import WorkerError
from meshnet.v1 import frame_pb2, worker_pb2
from tests.simulators.fake_engine import VOCAB_SIZE, FakeSequence, Row, logits_of, pack_rows, unpack_rows
from tests.simulators.shard_load import ShardLoad

Taken = TypeVar("Taken")


def run_probe(load: ShardLoad, request: worker_pb2.ProbeRequest) -> list[frame_pb2.Tensor]:
    """The shard's output rows for the request's ids or tensors; a shard without the head takes fixed rows for ids.

    Raises:
        WorkerError: `bad_token_id` or `wrong_shape`.
    """
    if any(token >= VOCAB_SIZE for token in request.token_ids):
        raise WorkerError("bad_token_id", "Bad probe", "a token id is outside the vocabulary")
    sequence = FakeSequence(load.shard)
    if load.shard.owns_input:
        rows = [row for ids in _steps(request.token_ids or [1], request) for row in sequence.step_tokens(ids)]
    else:
        rows = [row for part in _steps(_input_rows(load, request), request) for row in sequence.step_rows(part)]
    if not load.shard.owns_output:
        return [_tensor("hidden", len(rows), load.shard.width, pack_rows(rows))]
    logits = b"".join(_packed_logits(row) for row in rows)
    return [_tensor("logits", len(rows), VOCAB_SIZE, logits)]


def _steps(rows: Sequence[Taken], request: worker_pb2.ProbeRequest) -> list[Sequence[Taken]]:
    step_rows = request.step_rows or len(rows)
    return [rows[begin : begin + step_rows] for begin in range(0, len(rows), step_rows)]


def spoil(tensor: frame_pb2.Tensor, how: str) -> frame_pb2.Tensor:
    """The tensor as a broken engine gives it; see `Faults.wrong_probe`."""
    count = len(tensor.data) // 4
    values = list(struct.unpack(f"<{count}f", tensor.data))
    elements = tensor.shape[1]
    match how:
        case "rows":
            values.reverse()
        case "nan":
            values[count // 2] = math.nan
        case "half":
            values = [0.0 if at % elements >= elements // 2 else value for at, value in enumerate(values)]
        case "width":
            values, elements = values[: count // 2], elements // 2
    return _tensor(tensor.name, tensor.shape[0], elements, struct.pack(f"<{len(values)}f", *values))


def _input_rows(load: ShardLoad, request: worker_pb2.ProbeRequest) -> list[Row]:
    if not request.tensors:
        return [(1,) * load.shard.width] * max(1, len(request.token_ids))
    try:
        return unpack_rows(request.tensors[0].data, load.shard.width)
    except ValueError as error:
        raise WorkerError("wrong_shape", "Bad probe", str(error)) from error


def _packed_logits(row: Row) -> bytes:
    return struct.pack(f"<{VOCAB_SIZE}f", *logits_of(row))


def _tensor(name: str, rows: int, elements: int, data: bytes) -> frame_pb2.Tensor:
    return frame_pb2.Tensor(
        name=name, dtype=frame_pb2.DTYPE_F32, shape=[rows, elements], codec=frame_pb2.CODEC_RAW, data=data
    )
