"""A prompt that is cut by the product keeps far machines busy at once; what was done before, and less, does not.

By the workers' own intervals, not by the clock of this process: the machine that runs this may be busy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest

from meshnet.generation.chunking import WINDOW_FRAMES_MIN, Chunking, Pipeline, choose_chunking
from meshnet.session import Window
from tests.integration.native.step_times import Interval, neighbours
from tests.simulators.pipelined_route import Machines, Prefilled, pipelined_route

pytestmark = [pytest.mark.native, pytest.mark.timeout(120)]

# Steps of 2 ms and 0.5 a row; 1024 bytes a row.
MACHINES = Machines(stages=4, fixed_us=2_000, row_us=500, width=256)
PROMPT_ROWS = 768
LATENCY_MS = 50.0


def pipeline() -> Pipeline:
    return Pipeline(PROMPT_ROWS, (MACHINES.time,) * MACHINES.stages, MACHINES.links(LATENCY_MS, None))


def with_frames(chunking: Chunking, frames: int) -> Chunking:
    """The same cut, with as many frames in flight everywhere."""
    windows = tuple(Window(frames, frames * chunking.rows * link.row_bytes) for link in pipeline().links)
    return Chunking(chunking.rows, windows, chunking.interval_ms)


def idle_share(steps: Sequence[Interval]) -> float:
    """Of the time from a stage's first step to its last one's end: how much it did not compute."""
    span_us = steps[-1].end_us - steps[0].begin_us
    return sum(later.begin_us - earlier.end_us for earlier, later in pairwise(steps)) / span_us


def show(name: str, prefilled: Prefilled) -> list[float]:
    idle = [round(idle_share(steps), 3) for steps in prefilled.steps]
    seams = [asdict(seam) for seam in neighbours(prefilled.steps)]
    print(json.dumps({"cut": name, "ms": round(prefilled.ms, 1), "idle": idle, "seams": seams}))
    return idle


async def test_far_machines_compute_a_prompt_at_once(tmp_path: Path) -> None:
    chosen = choose_chunking(pipeline())
    three, one = (with_frames(chosen, frames) for frames in (WINDOW_FRAMES_MIN, 1))
    assert chosen.windows[1].frames > WINDOW_FRAMES_MIN
    async with pipelined_route(tmp_path, MACHINES) as route:
        await route.lines.set(LATENCY_MS, None)
        await route.prefill(PROMPT_ROWS, chosen)  # connects
        busy, stalled, alone = [await route.prefill(PROMPT_ROWS, cut) for cut in (chosen, three, one)]
    for prefilled in (busy, stalled, alone):
        chunks = list(range(0, PROMPT_ROWS, chosen.rows))
        assert [[step.position for step in steps] for steps in prefilled.steps] == [chunks] * MACHINES.stages
    assert all(seam.holds for seam in neighbours(busy.steps))
    assert max(show("chosen", busy)) < 0.4
    # Controls: with three frames every stage waits for acknowledgements most of the time; with one, no two compute.
    assert min(show("three frames", stalled)) > 0.5
    show("one frame", alone)
    assert sum(seam.intersecting for seam in neighbours(alone.steps)) == 0


async def test_a_narrow_line_is_kept_full(tmp_path: Path) -> None:
    """A line that takes twice as long as a step: chunks come out of it without a pause, at its rate."""
    rate = 1e6 * MACHINES.row_bytes / (2 * MACHINES.row_us)
    narrow = Pipeline(PROMPT_ROWS, (MACHINES.time,) * MACHINES.stages, MACHINES.links(10.0, rate))
    chosen = choose_chunking(narrow)
    async with pipelined_route(tmp_path, MACHINES) as route:
        await route.lines.set(10.0, rate)
        await route.prefill(PROMPT_ROWS, chosen)
        prefilled = await route.prefill(PROMPT_ROWS, chosen)
    steps = prefilled.steps[1]
    span_ms = (steps[-1].begin_us - steps[0].begin_us) / 1000
    needed_ms = 1000 * (PROMPT_ROWS - chosen.rows) * MACHINES.row_bytes / rate
    print(json.dumps({"rows": chosen.rows, "span_ms": round(span_ms, 1), "needed_ms": round(needed_ms, 1)}))
    # No faster than the line, which shows that it is narrow.
    assert 0.98 * needed_ms < span_ms < 1.3 * needed_ms
