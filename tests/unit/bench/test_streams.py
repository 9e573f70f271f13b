"""What is concluded from when tokens came."""

from __future__ import annotations

import pytest

from tests.bench.streams import Newcomer, Stream, gaps_around, p50_p95, served_rate, total_rate


def test_the_rate_counts_all_streams_from_the_first_token_to_the_last() -> None:
    streams = [Stream(0.0, [1.0, 2.0, 3.0]), Stream(0.5, [1.5, 2.5, 3.5, 5.0])]
    assert total_rate(streams) == pytest.approx(6 / 4)


def test_the_rate_served_counts_prompts_too_however_they_were_grouped() -> None:
    one_by_one = [Stream(0.0, [1.0, 5.0]), Stream(0.0, [3.0, 5.0])]
    together = [Stream(0.0, [3.0, 5.0]), Stream(0.0, [3.0, 5.0])]
    assert served_rate(one_by_one) == served_rate(together) == pytest.approx(4 / 5)
    assert total_rate(one_by_one) != total_rate(together)
    with pytest.raises(ValueError, match="rate"):
        served_rate([Stream(0.0, [1.0]), Stream(0.0)])


@pytest.mark.parametrize("streams", [[], [Stream(0.0)], [Stream(0.0, [1.0]), Stream(0.0)], [Stream(0.0, [1.0, 1.0])]])
def test_nothing_is_concluded_from_nothing(streams: list[Stream]) -> None:
    with pytest.raises(ValueError, match="rate"):
        total_rate(streams)


def test_gaps_are_between_tokens_and_may_be_those_of_a_while() -> None:
    stream = Stream(0.0, [1.0, 1.5, 2.5, 4.0])
    assert stream.first_ms == 1000
    assert stream.gaps_ms() == [500, 1000, 1500]
    assert stream.gaps_ms(2.0, 3.0) == [1000]


def test_a_newcomer_is_due_once_all_have_a_third() -> None:
    newcomer = Newcomer(5)
    assert not newcomer.is_due([Stream(0.0, [1.0, 2.0]), Stream(0.0, [1.0])], 6)
    assert newcomer.is_due([Stream(0.0, [1.0, 2.0]), Stream(0.0, [1.0, 2.0])], 6)
    assert newcomer.prompt((7, 8)) == (7, 8, 7, 8, 7)


def test_gaps_before_and_while_a_newcomer_is_computed() -> None:
    others = [Stream(0.0, [1.0, 2.0, 5.0, 6.0])]
    assert gaps_around(others, Stream(2.5, [5.5])) == ([1000], [3000])


def test_quantiles_need_values() -> None:
    assert p50_p95([float(number) for number in range(1, 102)]) == {"p50": 51.0, "p95": 96.9}
    with pytest.raises(ValueError, match="too few"):
        p50_p95([1.0])
