"""Where the time of a decode step goes, from the moments that a route's workers tell. Pure.

Invariants: the parts of one step follow each other without a gap, from the moment at which the head has its row to that
at which it has the next one; so their sum is the step, and whatever is missing would show against another clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Final

from meshnet.v1 import measure_pb2

# Of one stage, in order: the part and the field with the moment at which it ends. The engine's own come in between.
BEFORE: Final = (("wake", "awake_us"), ("turn", "taken_us"), ("gather", "begin_us"))
# Packing the outputs or drawing the token; serialising and writing; the way until the next stage has parsed it. The
# next stage may have it before the writer's call comes back: then all of the way counts as writing.
DELIVER, SEND, CARRY = "deliver", "send", "carry"

# Part -> microseconds.
Parts = dict[str, float]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The parts of a route's steps, means over all of them.

    Attributes:
        steps: how many were taken apart.
        step_us: from token to token, by the Gateway's clock; a mean too.
        stages: parts of each stage, the way to the next one included.
    """

    steps: int
    step_us: float
    stages: list[Parts]

    @property
    def explained(self) -> float:
        """The sum of all parts against the step."""
        return sum(sum(parts.values()) for parts in self.stages) / self.step_us

    def report(self) -> dict[str, object]:
        """For the last line; microseconds."""
        return {
            "steps": self.steps,
            "step_us": round(self.step_us),
            "explained": round(self.explained, 4),
            "stages": [{part: round(us, 1) for part, us in parts.items()} for parts in self.stages],
        }


def break_down(stages: Sequence[Sequence[measure_pb2.CapturedStep]], gaps_us: Sequence[float]) -> Breakdown:
    """Take the decode steps of one generation apart.

    Args:
        stages: what every stage told of its steps, head first.
        gaps_us: between the Gateway's tokens.

    Raises:
        ValueError: no step of which all stages told, or no gap.
    """
    found = list(_steps(stages))
    if not found or not gaps_us:
        raise ValueError("nothing to take apart")
    means = [
        {part: fmean(step[number][part] for step in found) for part in found[0][number]}
        for number in range(len(stages))
    ]
    return Breakdown(len(found), fmean(gaps_us), means)


def _steps(stages: Sequence[Sequence[measure_pb2.CapturedStep]]) -> Iterator[list[Parts]]:
    """The parts of every whole step: of all stages, and of the head's next one to end it."""
    by_position = [{step.position: step for step in stage if step.rows == 1} for stage in stages]
    for position in sorted(by_position[0]):
        following = by_position[0].get(position + 1)
        if following is None or any(position not in steps for steps in by_position):
            continue
        route = [*(steps[position] for steps in by_position), following]
        yield [_parts(own, successor) for own, successor in pairwise(route)]


def _parts(own: measure_pb2.CapturedStep, successor: measure_pb2.CapturedStep) -> Parts:
    ends: list[tuple[str, int]] = [(part, getattr(own, field)) for part, field in BEFORE]
    ends += [(mark.part, mark.at_us) for mark in own.marks] or [("engine", own.end_us)]
    ends.append((DELIVER, own.delivered_us))
    ends.append((SEND, min(own.sent_us, successor.received_us)))
    ends.append((CARRY, successor.received_us))
    parts: Parts = {}
    at_us = own.received_us
    for part, end_us in ends:
        parts[part] = parts.get(part, 0.0) + end_us - at_us
        at_us = end_us
    return parts


def together(breakdowns: Sequence[Breakdown]) -> Breakdown:
    """The median of several generations, part by part.

    Raises:
        ValueError: none.
    """
    if not breakdowns:
        raise ValueError("nothing to put together")
    stages = [
        {part: median(one.stages[number][part] for one in breakdowns) for part in parts}
        for number, parts in enumerate(breakdowns[0].stages)
    ]
    return Breakdown(sum(one.steps for one in breakdowns), median(one.step_us for one in breakdowns), stages)


def table(columns: Mapping[str, Breakdown]) -> list[str]:
    """Parts by route and stage, for a person: microseconds, and the share of the step as a bar."""
    lines = []
    for name, breakdown in columns.items():
        lines.append(f"{name}: {breakdown.step_us:.0f} us a step, {breakdown.explained:.1%} explained")
        for number, parts in enumerate(breakdown.stages):
            lines += [
                f"  stage {number} {part:>14} {us:9.0f}  {'#' * round(40 * us / breakdown.step_us)}"
                for part, us in parts.items()
            ]
    return lines
