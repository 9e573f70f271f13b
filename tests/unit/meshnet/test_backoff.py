from __future__ import annotations

import pytest

from meshnet.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "jitter", "delay_s"),
    [(1, 0.0, 0.5), (1, 1.0, 1.0), (2, 1.0, 2.0), (3, 0.5, 3.0), (10, 1.0, 8.0), (10**9, 0.0, 4.0), (0, 1.0, 1.0)],
)
def test_delays_double_up_to_the_longest_with_half_jitter(failures: int, jitter: float, delay_s: float) -> None:
    assert Backoff(first_s=1.0, longest_s=8.0).delay_s(failures, jitter) == delay_s
