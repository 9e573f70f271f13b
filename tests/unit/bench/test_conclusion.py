"""How a benchmark ends."""

from __future__ import annotations

import json

import pytest

from tests.bench.conclusion import EXIT_FAILED, EXIT_INCONCLUSIVE, conclude


@pytest.mark.parametrize(
    ("failures", "inconclusive", "status", "said"),
    [
        ([], "", 0, []),
        (["a bar was missed"], "", EXIT_FAILED, ["bench-x: a bar was missed"]),
        ([], "too noisy", EXIT_INCONCLUSIVE, ["bench-x: too noisy: neither pass nor fail"]),
        (
            ["one", "two"],
            "rates: too noisy",
            EXIT_FAILED,
            ["bench-x: one", "bench-x: two", "bench-x: rates: too noisy: neither pass nor fail"],
        ),
    ],
)
def test_a_missed_bar_counts_even_in_noise_and_the_result_is_the_last_line(
    failures: list[str], inconclusive: str, status: int, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    result = {"ratio": 0.97}
    assert conclude("bench-x", result, failures=failures, inconclusive=inconclusive) == status
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == said
    assert json.loads(last) == result
