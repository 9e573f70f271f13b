"""A worker that prints without end fills no log, and the log says how much it does not show."""

from __future__ import annotations

from node_app.worker.line_budget import BURST_LINES, LINES_PER_S, LineBudget


def test_a_start_is_logged_whole() -> None:
    budget = LineBudget(10.0)
    assert [budget.take(10.0) for _ in range(BURST_LINES)] == [0] * BURST_LINES


def test_a_flood_is_left_out_and_counted() -> None:
    budget = LineBudget(0.0)
    flood = [budget.take(0.0) for _ in range(BURST_LINES + 1000)]
    assert flood.count(None) == 1000
    assert budget.take(1.0 / LINES_PER_S) == 1000
    assert budget.take(1.0 / LINES_PER_S) is None


def test_quiet_fills_the_bucket_and_no_more() -> None:
    budget = LineBudget(0.0)
    logged = [budget.take(1e9) for _ in range(2 * BURST_LINES)]
    assert logged.count(0) == BURST_LINES


def test_a_steady_flood_is_logged_at_the_given_rate() -> None:
    budget = LineBudget(0.0)
    answers = [budget.take(step / 100) for step in range(100 * 60)]
    logged = [left_out for left_out in answers if left_out is not None]
    assert BURST_LINES + 58 <= len(logged) <= BURST_LINES + 60
    assert sum(logged) + len(logged) >= len(answers) - 100
