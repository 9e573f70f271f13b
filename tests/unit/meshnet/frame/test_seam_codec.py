"""Packings of hidden rows: answers known by hand, and what holds for all rows."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.failure_codes import FailureCode
from meshnet.frame import Codec, MessageError
from meshnet.frame.seam_codec import pack_rows, unpack_rows

BLOCK = 32
# The largest f32 that does not round beyond bf16's largest.
(BF16_MAX,) = struct.unpack("<f", bytes.fromhex("ff7f7f7f"))
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
# Whole blocks of what bf16 and a q8_0 scale can hold.
PACKABLE = st.lists(st.floats(-8e6, 8e6, width=32), min_size=BLOCK, max_size=3 * BLOCK).map(
    lambda values: values[: len(values) // BLOCK * BLOCK]
)


def rows(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def values_of(raw: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(raw) // 4}f", raw)


@pytest.mark.parametrize(
    ("word", "packed"),
    [
        (0x3F800000, 0x3F80),  # 1
        (0x3F808000, 0x3F80),  # a tie, down to even
        (0x3F818000, 0x3F82),  # a tie, up to even
        (0x3F808001, 0x3F81),
        (0x3F807FFF, 0x3F80),
        (0x3FFFFFFF, 0x4000),  # carries into the exponent
        (0x00008000, 0x0000),  # a subnormal tie
        (0x00018000, 0x0002),
        (0x80000001, 0x8000),  # keeps the sign
        (0x007FFFFF, 0x0080),  # the largest subnormal becomes the smallest normal
        (0x7F7F7FFF, 0x7F7F),  # the largest that stays finite
    ],
)
def test_bf16_of_known_words(word: int, packed: int) -> None:
    assert pack_rows(Codec.BF16, struct.pack("<I", word)) == struct.pack("<H", packed)


def test_a_q8_0_block_by_hand() -> None:
    """The largest is 254, so the scale is 2 (0x4000 as f16) and a byte is half its element."""
    raw = rows(254.0, -254.0, 2.0, 1.0, 3.0, -1.0, -3.0, 0.9, *[0.0] * 24)
    quants = bytes([127, 129, 1, 0, 2, 0, 254, 0]) + bytes(24)
    assert pack_rows(Codec.Q8_0, raw) == b"\x00\x40" + quants
    assert values_of(unpack_rows(Codec.Q8_0, b"\x00\x40" + quants))[:8] == (254, -254, 2, 0, 4, 0, -4, 0)


def test_zeros_are_zeros() -> None:
    assert pack_rows(Codec.Q8_0, bytes(4 * BLOCK)) == bytes(34)
    assert pack_rows(Codec.BF16, bytes(8)) == bytes(4)


@given(PACKABLE)
def test_what_is_packed_comes_back_within_its_step(values: list[float]) -> None:
    raw = rows(*values)
    assert unpack_rows(Codec.RAW, pack_rows(Codec.RAW, raw)) == raw
    for codec in (Codec.BF16, Codec.Q8_0):
        packed = pack_rows(codec, raw)
        assert len(packed) == codec.packed_bytes(len(values))
        back = values_of(unpack_rows(codec, packed))
        for at, (found, value) in enumerate(zip(back, values, strict=True)):
            block = values[at // BLOCK * BLOCK : at // BLOCK * BLOCK + BLOCK]
            largest = max(map(abs, block))
            # bf16 has 8 bits; q8_0 half a step of its scale, itself rounded to 11 bits or to a step of 2^-24.
            step = (
                abs(value) * 2**-8 + 2**-133 if codec is Codec.BF16 else largest * (0.51 / 127 + 2**-11) + 127 * 2**-24
            )
            assert abs(found - value) <= step


@given(st.lists(FINITE, min_size=1, max_size=8))
def test_bf16_twice_is_bf16_once(values: list[float]) -> None:
    if max(map(abs, values)) > BF16_MAX:
        with pytest.raises(MessageError, match="packed"):
            pack_rows(Codec.BF16, rows(*values))
        return
    once = pack_rows(Codec.BF16, rows(*values))
    assert pack_rows(Codec.BF16, unpack_rows(Codec.BF16, once)) == once


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_packed(codec: Codec, value: float) -> None:
    with pytest.raises(MessageError) as refused:
        pack_rows(codec, rows(value, *[1.0] * (BLOCK - 1)))
    assert refused.value.code == FailureCode.NOT_FINITE


@pytest.mark.parametrize(
    ("codec", "elements", "fits"), [(Codec.Q8_0, 576, True), (Codec.Q8_0, 48, False), (Codec.BF16, 7, True)]
)
def test_only_whole_blocks_are_q8_0(codec: Codec, elements: int, fits: bool) -> None:
    assert codec.can_pack(elements) is fits
