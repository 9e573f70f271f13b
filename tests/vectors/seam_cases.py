"""Cases of seam_codecs.json: rows and their packed bytes, and what is refused on either side.

Invariant: packed bytes are computed by the Python reference; its known answers are those of
tests/unit/meshnet/frame/test_seam_codec.py.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from meshnet.frame import Codec
from meshnet.frame.seam_codec import pack_rows, unpack_rows

BLOCK = 32
F32_MAX = struct.unpack("<f", bytes.fromhex("ffff7f7f"))[0]
# The largest that bf16 holds, and the first f32 that rounds beyond it.
BF16_MAX = struct.unpack("<f", bytes.fromhex("00007f7f"))[0]
BEYOND_BF16 = struct.unpack("<f", bytes.fromhex("00807f7f"))[0]


def rows_of(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def bits_of(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def waves(count: int, scale: float) -> bytes:
    """Values of both signs without a pattern that a block could hide."""
    return rows_of(*(scale * math.sin(1.7 * i) * math.exp(math.sin(0.3 * i)) for i in range(count)))


GOOD: dict[str, tuple[Codec, bytes]] = {
    "raw": (Codec.RAW, rows_of(0.0, -0.0, 1.5, -F32_MAX)),
    "bf16_exact": (Codec.BF16, rows_of(0.0, -0.0, 1.0, -2.5, 65504.0, 1e30)),
    "bf16_ties_to_even": (Codec.BF16, bits_of(0x3F808000, 0x3F818000, 0xBF808000, 0xBF818000)),
    "bf16_around_a_tie": (Codec.BF16, bits_of(0x3F807FFF, 0x3F808001, 0x3F817FFF, 0x3F818001)),
    "bf16_carries_into_the_exponent": (Codec.BF16, bits_of(0x3FFF8000, 0x3FFFFFFF, 0x007FFFFF)),
    "bf16_subnormal": (Codec.BF16, bits_of(0x00000001, 0x00008000, 0x00008001, 0x00018000, 0x807FFFFF)),
    "bf16_largest": (Codec.BF16, rows_of(BF16_MAX, -BF16_MAX) + bits_of(0x7F7F7FFF, 0xFF7F7FFF)),
    "bf16_waves": (Codec.BF16, waves(96, 3.0)),
    "q8_0_zeros": (Codec.Q8_0, bytes(BLOCK * 4)),
    "q8_0_negative_zeros": (Codec.Q8_0, rows_of(*[-0.0] * BLOCK)),
    "q8_0_ramp": (Codec.Q8_0, rows_of(*(float(i - 16) for i in range(BLOCK)))),
    "q8_0_ties_to_even": (Codec.Q8_0, rows_of(127.0, 0.5, 1.5, -0.5, -1.5, 2.5, -2.5, 126.5, *[0.0] * 24)),
    "q8_0_largest_is_negative": (Codec.Q8_0, rows_of(-5.0, 4.9, *[0.01] * 30)),
    "q8_0_largest": (Codec.Q8_0, rows_of(65504.0 * 127, -65504.0 * 127, *[1.0] * 30)),
    "q8_0_subnormal_scale": (Codec.Q8_0, rows_of(*(1e-4 * (i - 15) for i in range(BLOCK)))),
    "q8_0_smallest_scale": (Codec.Q8_0, rows_of(127 * 2.0**-24, -(2.0**-24), *[0.0] * 30)),
    "q8_0_scale_that_rounds_to_nothing": (Codec.Q8_0, rows_of(127 * 2.0**-25, -1e-7, *[1e-38] * 30)),
    "q8_0_f32_subnormals": (Codec.Q8_0, bits_of(1, 0x80000001, 0x007FFFFF, *[0] * 29)),
    "q8_0_blocks_have_their_own_scales": (Codec.Q8_0, waves(BLOCK, 1e-3) + waves(BLOCK, 1e5) + bytes(BLOCK * 4)),
    "q8_0_waves": (Codec.Q8_0, waves(576, 20.0)),
}

REFUSED_ROWS: dict[str, tuple[Codec, bytes]] = {
    f"{codec.name.lower()}_{name}": (codec, raw + bytes(BLOCK * 4 - len(raw)))
    for codec in Codec
    for name, raw in {
        "nan": bits_of(0x7FC00000),
        "nan_that_rounds_to_zero": bits_of(0x7FFFFFFF),
        "negative_nan": bits_of(0xFFFFFFFF),
        "infinity": bits_of(0x7F800000),
        "negative_infinity": bits_of(0, 0xFF800000),
    }.items()
} | {
    "bf16_rounds_to_infinity": (Codec.BF16, rows_of(1.0, BEYOND_BF16)),
    "bf16_rounds_to_negative_infinity": (Codec.BF16, rows_of(-F32_MAX)),
    "q8_0_scale_beyond_f16": (Codec.Q8_0, rows_of(65520.0 * 127, *[0.0] * 31)),
    "q8_0_largest_f32": (Codec.Q8_0, bytes(BLOCK * 4) + rows_of(-F32_MAX, *[0.0] * 31)),
}

REFUSED_PACKED: dict[str, tuple[Codec, str]] = {
    "raw_nan": (Codec.RAW, "0000c07f"),
    "bf16_infinity": (Codec.BF16, "803f807f"),
    "bf16_negative_infinity": (Codec.BF16, "80ff803f"),
    "bf16_nan": (Codec.BF16, "c07f"),
    "bf16_smallest_nan": (Codec.BF16, "81ff"),
    "q8_0_scale_infinite": (Codec.Q8_0, "007c" + "01" * BLOCK),
    "q8_0_scale_negative_infinite": (Codec.Q8_0, "00fc" + "00" * BLOCK),
    "q8_0_scale_nan": (Codec.Q8_0, "017e" + "00" * BLOCK),
    "q8_0_scale_nan_in_the_second_block": (Codec.Q8_0, "003c" + "01" * BLOCK + "ff7f" + "00" * BLOCK),
}

# What no sender of ours makes and a reader must understand: any finite scale, any byte.
ODD_PACKED: dict[str, tuple[Codec, str]] = {
    "q8_0_negative_scale": (Codec.Q8_0, "00c0" + "7f80" + "01" * (BLOCK - 2)),
    "q8_0_largest_scale": (Codec.Q8_0, "ff7b" + "7f80" + "00" * (BLOCK - 2)),
    "q8_0_smallest_negative_scale": (Codec.Q8_0, "0180" + "7f80" + "05" * (BLOCK - 2)),
    "bf16_subnormals": (Codec.BF16, "010001807f00"),
}


def good_cases() -> list[dict[str, Any]]:
    return [_good_case(name, codec, raw) for name, (codec, raw) in GOOD.items()]


def _good_case(name: str, codec: Codec, raw: bytes) -> dict[str, Any]:
    packed = pack_rows(codec, raw)
    unpacked = unpack_rows(codec, packed).hex()
    return {"name": name, "codec": codec.name, "raw": raw.hex(), "packed": packed.hex(), "unpacked": unpacked}


def refused_rows_cases() -> list[dict[str, Any]]:
    return [{"name": name, "codec": codec.name, "raw": raw.hex()} for name, (codec, raw) in REFUSED_ROWS.items()]


def refused_packed_cases() -> list[dict[str, Any]]:
    return [{"name": name, "codec": codec.name, "packed": data} for name, (codec, data) in REFUSED_PACKED.items()]


def odd_packed_cases() -> list[dict[str, Any]]:
    return [
        {"name": name, "codec": codec.name, "packed": data, "unpacked": unpack_rows(codec, bytes.fromhex(data)).hex()}
        for name, (codec, data) in ODD_PACKED.items()
    ]
