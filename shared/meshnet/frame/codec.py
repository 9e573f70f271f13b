"""Converts bytes to `Frame` objects and back.

Invariants: the size is checked before parsing, the address (session, epoch, edge) before all other fields, and every
number before it is used. For any bytes, nothing but `MessageError` (a `ProtocolError`) is raised. If a parsed frame is
serialised, the result is the canonical encoding. Unknown fields are dropped, so that newer peers can add fields.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from meshnet.constants import GATEWAY_STAGE, MAX_MESSAGE_BYTES, MAX_STAGES, SESSION_ID_BYTES
from meshnet.failure_codes import FailureCode
from meshnet.frame.frames import (
    MAX_ELEMENTS_PER_ROW,
    MAX_FRAGMENTS,
    MAX_POSITION,
    MAX_ROWS,
    MAX_TENSOR_BYTES,
    MAX_TENSOR_NAME_BYTES,
    MAX_TENSORS,
    MAX_TOKEN_ID,
    Q8_0_BLOCK_ELEMENTS,
    Codec,
    DType,
    Fragment,
    Frame,
    Phase,
    StageResidence,
    Tensor,
)
from meshnet.frame.refusal import MessageError, require
from meshnet.ids import Address, Edge, SessionKey, is_stage
from meshnet.v1 import frame_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

MALFORMED = FailureCode.MALFORMED


def parse_frame(data: bytes, *, limit_bytes: int = MAX_MESSAGE_BYTES) -> Frame:
    """Read and check one frame from untrusted bytes.

    Raises:
        MessageError: the bytes are refused. If the error has an `address`, only that session fails; otherwise the
            connection is closed.
    """
    require(len(data) <= limit_bytes, FailureCode.MESSAGE_TOO_LARGE, f"{len(data)} bytes exceed {limit_bytes}", None)
    try:
        message = frame_pb2.Frame.FromString(data)
    except DecodeError as error:
        raise MessageError(MALFORMED, "the bytes are not a frame") from error
    return read_frame(message)


def serialise_frame(frame: Frame) -> bytes:
    """Encode a frame. The caller must cut a frame with `fragment_frame` first if it is too large for a message."""
    return write_frame(frame).SerializeToString(deterministic=True)


def read_frame(message: frame_pb2.Frame) -> Frame:
    """Check a protobuf message and return it as a `Frame`.

    Raises:
        MessageError: as from `parse_frame`.
    """
    address = read_address(message.session, message.epoch, message.from_stage, message.to_stage)
    require(message.to_stage != GATEWAY_STAGE, MALFORMED, "the Gateway takes no frames", address)
    _check_header(message, address)
    tensors = tuple(_read_tensor(tensor, message.rows, address) for tensor in message.tensors)
    require(len({tensor.name for tensor in tensors}) == len(tensors), MALFORMED, "two tensors have one name", address)
    fragment = _read_fragment(message.fragment, tensors, address) if message.HasField("fragment") else None
    if fragment is None:
        for tensor in tensors:
            length = len(tensor.data)
            require(length == tensor.packed_bytes, FailureCode.WRONG_SIZE, f"rows have {length} bytes", address)
    return Frame(
        session=message.session,
        epoch=message.epoch,
        from_stage=message.from_stage,
        to_stage=message.to_stage,
        seq=message.seq,
        phase=Phase(message.phase),
        position=message.position,
        rows=message.rows,
        rewind=message.rewind,
        prompt_end=message.prompt_end,
        token_ids=tuple(message.token_ids),
        tensors=tensors,
        logits_rows=tuple(message.logits_rows),
        budget_ms=message.budget_ms,
        residence=read_residence(message.residence, address),
        fragment=fragment,
    )


def write_frame(frame: Frame) -> frame_pb2.Frame:
    """Return a frame as its protobuf message."""
    return frame_pb2.Frame(
        session=frame.session,
        epoch=frame.epoch,
        from_stage=frame.from_stage,
        to_stage=frame.to_stage,
        seq=frame.seq,
        phase=frame_pb2.Phase.Name(frame.phase),
        position=frame.position,
        rows=frame.rows,
        rewind=frame.rewind,
        prompt_end=frame.prompt_end,
        token_ids=frame.token_ids,
        tensors=[_write_tensor(tensor) for tensor in frame.tensors],
        logits_rows=frame.logits_rows,
        budget_ms=frame.budget_ms,
        residence=[write_residence(entry) for entry in frame.residence],
        fragment=None if frame.fragment is None else _write_fragment(frame.fragment),
    )


def read_address(session: bytes, epoch: int, from_stage: int, to_stage: int) -> Address:
    """Check the session, epoch and stages of a frame or edge message, and return them as an address.

    Raises:
        MessageError: `malformed`, without an address.
    """
    require(len(session) == SESSION_ID_BYTES, MALFORMED, f"a session id has {len(session)} bytes", None)
    require(epoch >= 1, MALFORMED, "epochs count from 1", None)
    require(is_stage(from_stage) and is_stage(to_stage), MALFORMED, "a stage is out of range", None)
    require(from_stage != to_stage, MALFORMED, "an edge from a stage to itself never leaves the worker", None)
    return Address(SessionKey(session, epoch), Edge(from_stage, to_stage))


def read_residence(entries: Iterable[frame_pb2.StageResidence], address: Address) -> tuple[StageResidence, ...]:
    """Check and return residence entries: how long each stage kept the rows of a step.

    Raises:
        MessageError: `malformed` if a stage has two entries, or if an entry is not of a stage.
    """
    residence = tuple(StageResidence(e.stage, e.queue_us, e.compute_us, e.codec_us) for e in entries)
    stages = {entry.stage for entry in residence}
    require(len(stages) == len(residence), MALFORMED, "two residence entries are of one stage", address)
    require(all(stage < MAX_STAGES for stage in stages), MALFORMED, "a residence entry names no stage", address)
    return residence


def write_residence(entry: StageResidence) -> frame_pb2.StageResidence:
    """Return a residence entry (how long one stage kept the rows of a step) as its protobuf message."""
    return frame_pb2.StageResidence(
        stage=entry.stage, queue_us=entry.queue_us, compute_us=entry.compute_us, codec_us=entry.codec_us
    )


def _check_header(message: frame_pb2.Frame, address: Address) -> None:
    rows, ids, wanted, phase = message.rows, message.token_ids, message.logits_rows, int(message.phase)
    require(1 <= rows <= MAX_ROWS, MALFORMED, f"a frame has {rows} rows", address)
    require(phase in set(Phase), MALFORMED, "the phase is unknown", address)
    require(message.position + rows <= MAX_POSITION, MALFORMED, "a position is out of range", address)
    require(phase != Phase.DECODE or rows == 1, MALFORMED, "a decode frame has several rows", address)
    is_prefill = phase == Phase.PREFILL
    require(is_prefill or not message.prompt_end, MALFORMED, "a prompt ends outside prefill", address)
    require(len(ids) in {0, rows}, MALFORMED, f"{len(ids)} token ids for {rows} rows", address)
    require(all(i <= MAX_TOKEN_ID for i in ids), FailureCode.BAD_TOKEN_ID, "a token id is out of range", address)
    ascending = all(a < b for a, b in pairwise(wanted))
    require(
        ascending and all(row < rows for row in wanted),
        MALFORMED,
        "the logits rows are out of order or out of range",
        address,
    )
    require(len(message.tensors) <= MAX_TENSORS, MALFORMED, f"a frame has {len(message.tensors)} tensors", address)


def _read_tensor(message: frame_pb2.Tensor, rows: int, address: Address) -> Tensor:
    dtype, codec = int(message.dtype), int(message.codec)
    named = 1 <= len(message.name.encode()) <= MAX_TENSOR_NAME_BYTES
    require(named, MALFORMED, "a tensor's name is empty or too long", address)
    require(dtype in set(DType), FailureCode.WRONG_DTYPE, "the element type is unknown", address)
    require(codec in set(Codec), FailureCode.WRONG_DTYPE, "the codec is unknown", address)
    shape = tuple(message.shape)
    fits = len(shape) == 2 and shape[0] == rows and 1 <= shape[1] <= MAX_ELEMENTS_PER_ROW
    require(fits, FailureCode.WRONG_SHAPE, "a tensor's shape is not [rows, elements]", address)
    packs_f32 = codec == Codec.RAW or dtype == DType.F32
    require(packs_f32, FailureCode.WRONG_DTYPE, "a codec packs only f32 rows", address)
    blocks = codec != Codec.Q8_0 or shape[1] % Q8_0_BLOCK_ELEMENTS == 0
    require(blocks, FailureCode.WRONG_SHAPE, "q8_0 needs rows of whole blocks of 32", address)
    tensor = Tensor(message.name, DType(dtype), (shape[0], shape[1]), Codec(codec), message.data)
    require(tensor.packed_bytes <= MAX_TENSOR_BYTES, FailureCode.MESSAGE_TOO_LARGE, "rows exceed any window", address)
    return tensor


def _write_tensor(tensor: Tensor) -> frame_pb2.Tensor:
    return frame_pb2.Tensor(
        name=tensor.name,
        dtype=frame_pb2.DType.Name(tensor.dtype),
        shape=tensor.shape,
        codec=frame_pb2.Codec.Name(tensor.codec),
        data=tensor.data,
    )


def _read_fragment(message: frame_pb2.Fragment, tensors: tuple[Tensor, ...], address: Address) -> Fragment:
    fragment = Fragment(message.index, message.count, message.offset_bytes, message.total_bytes)
    require(len(tensors) == 1, MALFORMED, "a fragmented frame has one tensor", address)
    counted = 2 <= fragment.count <= MAX_FRAGMENTS and fragment.index < fragment.count
    require(counted, MALFORMED, "a fragment's index or count is out of range", address)
    whole = fragment.total_bytes == tensors[0].packed_bytes
    require(whole, FailureCode.WRONG_SIZE, "a fragment's total is not its rows' size", address)
    end_bytes = fragment.offset_bytes + len(tensors[0].data)
    inside = bool(tensors[0].data) and end_bytes <= fragment.total_bytes
    require(inside, FailureCode.WRONG_SIZE, "a fragment reaches beyond its rows", address)
    starts = (fragment.index == 0) == (fragment.offset_bytes == 0)
    ends = (fragment.index == fragment.count - 1) == (end_bytes == fragment.total_bytes)
    require(starts and ends, MALFORMED, "a fragment's index and offset contradict each other", address)
    return fragment


def _write_fragment(fragment: Fragment) -> frame_pb2.Fragment:
    return frame_pb2.Fragment(
        index=fragment.index,
        count=fragment.count,
        offset_bytes=fragment.offset_bytes,
        total_bytes=fragment.total_bytes,
    )
