"""Packs the hidden rows that cross a seam as raw f32, bf16 or q8_0, and unpacks them.

Invariants: equal rows give equal bytes, the same as the C++ worker's (`native/src/wire/seam_codec.cpp`); tests/vectors
compares them. If a value is not finite, or would not be after unpacking, it is refused. The PyTorch worker and the
simulated stages use this module. Source: docs/wire.md, Codecs.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final

from meshnet.failure_codes import FailureCode
from meshnet.frame.frames import Q8_0_BLOCK_BYTES, Q8_0_BLOCK_ELEMENTS, Codec
from meshnet.frame.refusal import MessageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

F32_BYTES: Final = 4
# The largest magnitude in a q8_0 block is stored as this number.
_LARGEST_QUANT: Final = 127.0


def pack_rows(codec: Codec, raw: bytes) -> bytes:
    """Pack `raw`, whole rows of little-endian f32, with `codec`.

    Raises:
        MessageError: `not_finite` if a value is not finite, or would not be after packing.
    """
    values = struct.unpack(f"<{len(raw) // F32_BYTES}f", raw)
    _require_finite(all(map(math.isfinite, values)))
    match codec:
        case Codec.BF16:
            packed = b"".join(_bf16(raw, at) for at in range(0, len(raw), F32_BYTES))
            _require_finite(_is_finite_bf16(packed))
            return packed
        case Codec.Q8_0:
            return b"".join(_q8_0_block(block) for block in _blocks(values))
        case Codec.RAW:
            return raw


def unpack_rows(codec: Codec, packed: bytes) -> bytes:
    """Return packed rows as little-endian f32. The caller must have checked the size of `packed`.

    Raises:
        MessageError: `not_finite` if a value is not finite.
    """
    match codec:
        case Codec.BF16:
            _require_finite(_is_finite_bf16(packed))
            return b"".join(b"\0\0" + packed[at : at + 2] for at in range(0, len(packed), 2))
        case Codec.Q8_0:
            return b"".join(_unpacked_block(packed, at) for at in range(0, len(packed), Q8_0_BLOCK_BYTES))
        case Codec.RAW:
            _require_finite(all(map(math.isfinite, struct.unpack(f"<{len(packed) // F32_BYTES}f", packed))))
            return packed


def _require_finite(condition: bool) -> None:
    if not condition:
        raise MessageError(FailureCode.NOT_FINITE, "a row is not finite, or would not be once it is packed")


def _bf16(raw: bytes, at: int) -> bytes:
    (bits,) = struct.unpack_from("<I", raw, at)
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def _is_finite_bf16(packed: bytes) -> bool:
    return all(bits & 0x7F80 != 0x7F80 for (bits,) in struct.iter_unpack("<H", packed))


def _blocks(values: Sequence[float]) -> Iterator[Sequence[float]]:
    for at in range(0, len(values), Q8_0_BLOCK_ELEMENTS):
        yield values[at : at + Q8_0_BLOCK_ELEMENTS]


def _f32(value: float) -> float:
    """Round to the nearest f32. For a quotient or product of two f32, that equals f32 arithmetic."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    return float(rounded)


def _q8_0_block(values: Sequence[float]) -> bytes:
    scale = _f32(max(map(abs, values)) / _LARGEST_QUANT)
    try:
        packed_scale = struct.pack("<e", scale)
    except OverflowError:
        raise MessageError(FailureCode.NOT_FINITE, "a block's scale is too large for f16") from None
    # If the scale rounds to zero, all values of the block become zero.
    inverse = 0.0 if packed_scale == b"\0\0" else _f32(1.0 / scale)
    return packed_scale + struct.pack(f"<{len(values)}b", *(round(_f32(value * inverse)) for value in values))


def _unpacked_block(packed: bytes, at: int) -> bytes:
    (scale,) = struct.unpack_from("<e", packed, at)
    _require_finite(math.isfinite(scale))
    quants = struct.unpack_from(f"<{Q8_0_BLOCK_ELEMENTS}b", packed, at + 2)
    return struct.pack(f"<{Q8_0_BLOCK_ELEMENTS}f", *(scale * quant for quant in quants))
