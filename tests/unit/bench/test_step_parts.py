"""How a step is taken apart."""

from __future__ import annotations

import pytest

from meshnet.v1 import measure_pb2
from tests.bench.step_parts import Breakdown, break_down, table, together

STEP_US = 100


def a_step(position: int, received_us: int, marks: tuple[tuple[str, int], ...] = ()) -> measure_pb2.CapturedStep:
    """A row whose moments lie 1, 2, 3, 30, 31 and 32 us after it was received."""
    return measure_pb2.CapturedStep(
        position=position,
        rows=1,
        received_us=received_us,
        awake_us=received_us + 1,
        taken_us=received_us + 2,
        begin_us=received_us + 3,
        end_us=received_us + 30,
        delivered_us=received_us + 31,
        sent_us=received_us + 32,
        marks=[measure_pb2.StepMark(part=part, at_us=received_us + at) for part, at in marks],
    )


def two_stages(steps: int) -> list[list[measure_pb2.CapturedStep]]:
    """The tail receives half a step after the head."""
    return [[a_step(p, p * STEP_US + shift) for p in range(steps)] for shift in (0, STEP_US // 2)]


def test_the_parts_of_both_stages_are_the_step() -> None:
    found = break_down(two_stages(5), [float(STEP_US)] * 4)
    assert found.steps == 4  # the last one has no end
    assert found.explained == 1.0
    head = {"wake": 1, "turn": 1, "gather": 1, "engine": 27, "deliver": 1, "send": 1, "carry": 18}
    assert found.stages == [head, head]


def test_the_engines_marks_stand_for_its_step() -> None:
    steps = [a_step(p, p * STEP_US, (("graph", 5), ("layers to 5", 20), ("outputs", 30))) for p in range(2)]
    (parts,) = break_down([steps], [float(STEP_US)]).stages
    assert "engine" not in parts
    assert (parts["graph"], parts["layers to 5"], parts["outputs"], parts["deliver"]) == (2, 15, 10, 1)
    assert sum(parts.values()) == STEP_US


def test_prompts_and_steps_that_not_all_stages_told_of_are_left_out() -> None:
    head, tail = two_stages(6)
    head[0].rows = 8
    found = break_down([head, tail[:3]], [float(STEP_US)])
    assert found.steps == 2


def test_another_clock_tells_what_is_missing() -> None:
    assert break_down(two_stages(5), [2.0 * STEP_US]).explained == 0.5


@pytest.mark.parametrize(("steps", "gaps"), [(1, [1.0]), (5, [])])
def test_nothing_compared_is_no_result(steps: int, gaps: list[float]) -> None:
    with pytest.raises(ValueError, match="nothing"):
        break_down(two_stages(steps), gaps)


def test_generations_are_put_together_by_the_median() -> None:
    one, two, three = (Breakdown(4, us, [{"engine": us}]) for us in (10.0, 20.0, 90.0))
    assert together([one, three, two]) == Breakdown(12, 20.0, [{"engine": 20.0}])
    with pytest.raises(ValueError, match="nothing"):
        together([])


def test_a_table_names_every_part() -> None:
    lines = table({"split": break_down(two_stages(3), [float(STEP_US)])})
    assert len(lines) == 1 + 2 * 7
    assert "100.0% explained" in lines[0]
