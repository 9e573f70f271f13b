"""The real model over two workers by codec: what packing does to the logits, against the same tokens' raw ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.frame import Codec
from tests.integration.native.native_routes import MEASURE_WORKER
from tests.integration.native.test_native_llama import PROMPTS, model_path
from tests.parity.divergence import Divergence
from tests.parity.forced_route import forced_route
from tests.parity.worker_routes import Shards

pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]

ROWS = 12
WIDTH = 576
# Nats; packing moves a row's distribution a little, a mistake by more.
MEAN_MAX = 0.05


async def test_each_codec_answers_nearly_as_raw_rows_do(tmp_path: Path) -> None:
    shards = Shards(MEASURE_WORKER, Path(model_path()), (0, 15, 30), threads=1)
    found = {codec: Divergence() for codec in Codec}
    bytes_of = dict.fromkeys(Codec, 0)
    async with forced_route(shards, tmp_path) as route:
        for prompt in PROMPTS:
            raw = await route.run(prompt, ROWS)
            for codec in Codec:
                run = await route.run(prompt, ROWS, codec=codec, forced=raw.tokens)
                for row, expected in zip(run.rows, raw.rows, strict=True):
                    found[codec].add(row, expected)
                bytes_of[codec] = min(run.decode_frame_bytes)
    assert {one.rows for one in found.values()} == {ROWS * len(PROMPTS)}
    assert {one.not_finite for one in found.values()} == {0}
    assert found[Codec.RAW].largest == 0.0
    for codec in (Codec.BF16, Codec.Q8_0):
        assert 0.0 < found[codec].mean < MEAN_MAX
        # Beside its rows a decode frame of two stages holds 160 + 24 x 2 bytes at most.
        assert 0 < bytes_of[codec] - codec.packed_bytes(WIDTH) <= 208
