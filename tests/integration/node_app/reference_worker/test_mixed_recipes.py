"""A torch head and a llama.cpp tail on one route: what they say together is what the unsplit model says, nearly."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.v1 import frame_pb2
from tests.bench.llama_routes import DEMO
from tests.integration.node_app.reference_worker.torch_routes import torch_worker
from tests.parity.divergence import Divergence
from tests.parity.forced_route import Run, forced_route
from tests.parity.worker_routes import Shards
from tests.simulators.damaged_rows import without_a_quarter

pytestmark = [pytest.mark.torch, pytest.mark.native, pytest.mark.llama, pytest.mark.timeout(240)]

ROWS = 48
# In nats, of the next token's distribution. The head computes in f32 what llama.cpp multiplies in 8 bits.
MEAN_KL_MAX = 0.02
SAME_TOKEN_MIN = 0.9


def damage(tensor: frame_pb2.Tensor) -> None:
    """What a mistake at the seam would do."""
    tensor.data = without_a_quarter(tensor.data)


def compare(found: Run, expected: Run) -> Divergence:
    divergence = Divergence()
    for row, other in zip(found.rows, expected.rows, strict=True):
        divergence.add(row, other)
    return divergence


def is_sensible(found: Divergence) -> bool:
    """NaN is not."""
    return found.mean <= MEAN_KL_MAX and 1 - found.other_arg_max / found.rows >= SAME_TOKEN_MIN


async def test_a_mixed_route_says_nearly_what_the_unsplit_model_says(tmp_path: Path, measure_program: Path) -> None:
    half = DEMO.layers // 2
    async with forced_route(Shards(measure_program, DEMO.path, (0, DEMO.layers), 1), tmp_path) as whole:
        expected = await whole.run(DEMO.prompt, ROWS)
    mixed = Shards(measure_program, DEMO.path, (0, half, DEMO.layers), 1, head=torch_worker(tmp_path))
    async with forced_route(mixed, tmp_path) as route:
        found = compare(await route.run(DEMO.prompt, ROWS, forced=expected.tokens), expected)
        damaged = await route.run(DEMO.prompt, ROWS, forced=expected.tokens, meddle=damage)
    control = compare(damaged, expected)
    print(f"mixed: {found.report()}; damaged: {control.report()}")
    assert found.rows == control.rows == ROWS
    assert is_sensible(found)
    assert not is_sensible(control)
