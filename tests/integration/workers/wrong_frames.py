"""Frames that no honest neighbour sends, and what each is refused with."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import Any

from meshnet.failure_codes import FailureCode
from meshnet.frame import Codec, DType, Frame, Phase, Tensor
from tests.simulators.fake_shards import KEY, WIDTH, terms

PROMPT_CHUNK = Frame(
    KEY.session, KEY.epoch, 127, 0, 0, Phase.PREFILL, 0, 12, prompt_end=True, token_ids=tuple(terms().prompt)
)


def rows(count: int, *, width: int = WIDTH, value: float = 1.0) -> Tensor:
    """So many rows of one value."""
    data = struct.pack(f"<{count * width}f", *[value] * (count * width))
    return Tensor("hidden", DType.F32, (count, width), Codec.RAW, data)


SEAM_FRAME = Frame(KEY.session, KEY.epoch, 0, 1, 0, Phase.PREFILL, 0, 12, prompt_end=True, tensors=(rows(12),))
UNPACKED = replace(rows(12), data=b"\0" * (12 * WIDTH * 4 - 4))
F16_ROWS = Tensor("hidden", DType.F16, (12, WIDTH), Codec.RAW, b"\0" * (12 * WIDTH * 2))

# Changes of PROMPT_CHUNK, and of SEAM_FRAME.
WRONG_AT_THE_HEAD: list[tuple[dict[str, Any], FailureCode]] = [
    ({"seq": 1}, FailureCode.SEQUENCE_GAP),
    ({"position": 1}, FailureCode.MALFORMED),
    ({"token_ids": (*PROMPT_CHUNK.token_ids[:11], 260)}, FailureCode.BAD_TOKEN_ID),
    ({"token_ids": ()}, FailureCode.MISSING_TOKEN_IDS),
    ({"token_ids": (1,)}, FailureCode.MALFORMED),
    ({"tensors": (rows(12),)}, FailureCode.WRONG_SHAPE),
    ({"prompt_end": False}, FailureCode.MALFORMED),
    ({"phase": Phase.DECODE, "rows": 1, "token_ids": (1,), "prompt_end": False}, FailureCode.MALFORMED),
    ({"phase": Phase.VERIFY, "prompt_end": False}, FailureCode.MALFORMED),
    ({"logits_rows": (3,)}, FailureCode.MALFORMED),
    ({"rows": 0, "token_ids": ()}, FailureCode.MALFORMED),
    ({"rows": 2}, FailureCode.MALFORMED),
]
WRONG_AT_THE_SEAM: list[tuple[dict[str, Any], FailureCode]] = [
    ({"position": 3}, FailureCode.WRONG_POSITION),
    ({"tensors": ()}, FailureCode.WRONG_SHAPE),
    ({"tensors": (replace(rows(12), name="rows"),)}, FailureCode.WRONG_SHAPE),
    ({"tensors": (rows(12, width=WIDTH + 1),)}, FailureCode.WRONG_SHAPE),
    ({"tensors": (rows(11),)}, FailureCode.WRONG_SHAPE),
    ({"tensors": (UNPACKED,)}, FailureCode.WRONG_SIZE),
    ({"tensors": (F16_ROWS,)}, FailureCode.WRONG_DTYPE),
    ({"tensors": (rows(12, value=math.nan),)}, FailureCode.NOT_FINITE),
    ({"tensors": (rows(12, value=-math.inf),)}, FailureCode.NOT_FINITE),
    ({"rows": 4096, "tensors": (rows(4096),)}, FailureCode.WRONG_SHAPE),
]
