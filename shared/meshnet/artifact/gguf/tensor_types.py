"""Sizes of ggml's tensor types.

Invariant: if a type is not listed, its size is unknown and the file is refused. Source: the type traits in the pinned
llama.cpp's ggml.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TensorType:
    """How elements are packed: each `block_elements` elements along the first dimension take `block_bytes`."""

    name: str
    block_elements: int
    block_bytes: int


TENSOR_TYPES: Final[dict[int, TensorType]] = {
    0: TensorType("f32", 1, 4),
    1: TensorType("f16", 1, 2),
    2: TensorType("q4_0", 32, 18),
    3: TensorType("q4_1", 32, 20),
    6: TensorType("q5_0", 32, 22),
    7: TensorType("q5_1", 32, 24),
    8: TensorType("q8_0", 32, 34),
    9: TensorType("q8_1", 32, 36),
    10: TensorType("q2_K", 256, 84),
    11: TensorType("q3_K", 256, 110),
    12: TensorType("q4_K", 256, 144),
    13: TensorType("q5_K", 256, 176),
    14: TensorType("q6_K", 256, 210),
    15: TensorType("q8_K", 256, 292),
    16: TensorType("iq2_xxs", 256, 66),
    17: TensorType("iq2_xs", 256, 74),
    18: TensorType("iq3_xxs", 256, 98),
    19: TensorType("iq1_s", 256, 50),
    20: TensorType("iq4_nl", 32, 18),
    21: TensorType("iq3_s", 256, 110),
    22: TensorType("iq2_s", 256, 82),
    23: TensorType("iq4_xs", 256, 136),
    24: TensorType("i8", 1, 1),
    25: TensorType("i16", 1, 2),
    26: TensorType("i32", 1, 4),
    27: TensorType("i64", 1, 8),
    28: TensorType("f64", 1, 8),
    29: TensorType("iq1_m", 256, 56),
    30: TensorType("bf16", 1, 2),
    34: TensorType("tq1_0", 256, 54),
    35: TensorType("tq2_0", 256, 66),
    39: TensorType("mxfp4", 32, 17),
    40: TensorType("nvfp4", 64, 36),
    41: TensorType("q1_0", 128, 18),
    42: TensorType("q2_0", 64, 18),
}
