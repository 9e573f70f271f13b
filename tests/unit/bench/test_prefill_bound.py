"""The bound that a pipelined prefill is judged by, by hand; and what is concluded."""

from __future__ import annotations

import math

import pytest

from tests.bench.prefill import EXIT_INCONCLUSIVE, EXIT_SLOW, FLOOR, Measured, conclude, fixed_chunking, pipeline_of
from tests.bench.prefill_bound import Case, best_ms, idling_of
from tests.integration.native.step_times import Interval
from tests.simulators.pipelined_route import Machines

# Steps of 2 ms and 0.5 a row; 1000 bytes a row would be 500 kB/s.
MACHINES = Machines(stages=4, fixed_us=2_000, row_us=500, width=250)
WIDE = Case(MACHINES, 64, 10.0, None)
NARROW = Case(MACHINES, 64, 10.0, 1e6)


def test_the_bound_by_hand() -> None:
    """Steps of 10 ms; four of them, four ways, and three more chunks."""
    assert WIDE.bound_ms(16) == 4 * 10.0 + 4 * 10.0 + 3 * 10.0
    assert WIDE.reachable_ms(16) == WIDE.bound_ms(16)


def test_a_narrow_line_takes_longer_than_a_step() -> None:
    """16 ms for 16 rows; the first chunk's way over three seams is what the bound leaves out."""
    assert NARROW.bound_ms(16) == 4 * 10.0 + 4 * 10.0 + 3 * 16.0
    assert NARROW.reachable_ms(16) == NARROW.bound_ms(16) + 3 * 16.0


def test_the_best_of_the_sizes_counts() -> None:
    assert best_ms(WIDE, (8, 16, 64)) == (min(WIDE.bound_ms(rows) for rows in (8, 16, 64)),) * 2
    assert best_ms(WIDE, (8, 16)) <= best_ms(WIDE, (16,))


def test_what_is_not_the_engines_time() -> None:
    """Steps that take 10.2 ms instead of 10; the later stage pauses for longer."""
    first = [Interval(16 * at, 16, 10_300 * at, 10_300 * at + 10_200) for at in range(4)]
    second = [Interval(16 * at, 16, 12_000 * at, 12_000 * at + 10_200) for at in range(4)]
    idling = idling_of(WIDE, [first, second])
    assert (round(idling.longer_us), idling.gap_us) == (200, 100)


def measured(ratio: float, *, control: float = 1.0, one_frame: float | None = 2.0) -> Measured:
    bound_ms = WIDE.bound_ms(16)
    one = Measured("case", WIDE, fixed_chunking(pipeline_of(WIDE), 16, 3), bound_ms, bound_ms)
    for _ in range(3):
        for arm, factor in (("chosen", 1.0), ("control", 1 / control), ("former", 1.5)):
            one.rounds.add(arm, 1000 * WIDE.prompt_tokens / (bound_ms * ratio * factor))
    one.one_frame_ms = None if one_frame is None else one_frame * bound_ms
    return one


def test_a_case_over_the_floor_fails_and_is_named() -> None:
    assert conclude([measured(1.1)]) == (0, "")
    status, why = conclude([measured(1.1), measured(FLOOR + 0.01, one_frame=None)])
    assert (status, "case (1.160)" in why) == (EXIT_SLOW, True)


@pytest.mark.parametrize(
    "found",
    [
        [measured(1.1, control=1.05)],
        [measured(1.0), measured(1.1, control=math.nan)],
        [measured(1.1, one_frame=None)],
        [measured(1.1, one_frame=1.1)],
        [measured(1.0), measured(1.1, one_frame=math.nan)],
    ],
)
def test_nothing_is_concluded_without_quiet_and_a_control_that_fails(found: list[Measured]) -> None:
    assert conclude(found)[0] == EXIT_INCONCLUSIVE


def test_a_time_that_is_no_number_is_over_the_floor() -> None:
    broken = measured(1.1, one_frame=None)
    broken.reachable_ms = math.nan
    assert conclude([measured(1.0), broken])[0] == EXIT_SLOW
