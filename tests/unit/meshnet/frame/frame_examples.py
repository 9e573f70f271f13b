"""Frames that the tests of this folder start from."""

from __future__ import annotations

from meshnet.frame import Codec, DType, Frame, Phase, Tensor

SESSION = bytes(range(16))


def rows_of(rows: int, elements: int, *, codec: Codec = Codec.RAW) -> Tensor:
    empty = Tensor("hidden", DType.F32, (rows, elements), codec, b"")
    return Tensor("hidden", DType.F32, (rows, elements), codec, bytes(i % 251 for i in range(empty.packed_bytes)))


def decode_frame(seq: int = 0, position: int = 7) -> Frame:
    return Frame(SESSION, 1, 0, 1, seq, Phase.DECODE, position, 1, token_ids=(65,), tensors=(rows_of(1, 8),))


def prefill_frame(seq: int = 0, rows: int = 3, elements: int = 8) -> Frame:
    return Frame(SESSION, 1, 0, 1, seq, Phase.PREFILL, 0, rows, tensors=(rows_of(rows, elements),))
