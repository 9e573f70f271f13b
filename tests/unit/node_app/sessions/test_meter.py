from __future__ import annotations

from node_app.sessions.meter import RollingRate


def test_a_rate_counts_the_last_two_seconds() -> None:
    rate = RollingRate()
    for tick in range(100):
        rate.count(tick / 10)
    assert rate.per_s(9.9) == 10.0
    assert rate.per_s(10.9) == 5.0
    assert rate.per_s(100.0) == 0.0
