"""The verdict of `make bench-codecs`: every way in which a run proves nothing is a failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshnet.frame import Codec
from tests.bench.codec_verdict import ROWS_MIN, CodecVerdict
from tests.parity.divergence import Divergence


def of(mean: float, rows: int = ROWS_MIN) -> Divergence:
    return Divergence(rows=rows, total=mean * rows, largest=mean * 3)


CODECS = {Codec.RAW: of(0.0), Codec.BF16: of(0.0012), Codec.Q8_0: of(0.0035)}
GOOD = CodecVerdict(CODECS, noise=of(0.001), wrong_scales=of(0.0045))


def test_a_good_run_passes() -> None:
    assert GOOD.failures() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"codecs": CODECS | {Codec.BF16: of(0.0014)}}, "bf16: 1.40 of the control's"),
        ({"codecs": CODECS | {Codec.Q8_0: of(0.0041)}}, "q8_0: 4.10 of the control's"),
        ({"codecs": CODECS | {Codec.Q8_0: of(0.0)}}, "q8_0: 0.00 of the control's"),
        ({"codecs": CODECS | {Codec.RAW: of(1e-9)}}, "raw rows differ"),
        ({"codecs": CODECS | {Codec.BF16: of(0.001, ROWS_MIN - 1)}}, "bf16: 255 rows compared"),
        ({"codecs": CODECS | {Codec.BF16: Divergence()}}, "bf16: 0 rows compared"),
        ({"codecs": CODECS | {Codec.BF16: replace(of(0.001), not_finite=1)}}, "bf16: 1 rows not finite"),
        ({"noise": of(0.0)}, "noise on the seam is not seen"),
        ({"noise": Divergence()}, "noise: 0 rows compared"),
        ({"wrong_scales": of(0.0039)}, "wrong scales pass"),
        ({"wrong_scales": Divergence()}, "wrong_scales: 0 rows compared"),
    ],
)
def test_a_run_that_proves_nothing_or_misses_a_bar_fails(change: dict[str, object], said: str) -> None:
    failures = replace(GOOD, **change).failures()  # type: ignore[arg-type]  # a test's builder
    assert any(said in failure for failure in failures), failures
