"""What is read from llama-bench's report."""

from __future__ import annotations

import json

import pytest

from tests.bench.llama_cpp import Load, Rates, read_rates

LOAD = Load(decode_tokens=64, prompt_tokens=128)


def a_report(*tests: tuple[int, int, float]) -> bytes:
    return json.dumps([{"n_prompt": p, "n_gen": g, "avg_ts": rate} for p, g, rate in tests]).encode()


def test_both_rates_are_found_whatever_their_order() -> None:
    assert read_rates(a_report((0, 64, 20.5), (128, 0, 80.0)), LOAD) == Rates(decode=20.5, prefill=80.0)


@pytest.mark.parametrize(
    "report",
    [
        a_report(),
        a_report((0, 64, 20.5)),
        a_report((0, 64, 20.5), (64, 0, 80.0)),
        a_report((0, 64, 0.0), (128, 0, 8.0)),
    ],
)
def test_a_rate_that_is_missing_or_none_is_an_error(report: bytes) -> None:
    with pytest.raises(ValueError, match="llama-bench reported"):
        read_rates(report, LOAD)
