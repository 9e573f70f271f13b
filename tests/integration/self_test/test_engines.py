"""Real engines against golden probes: every architecture passes, and layers of another number do not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from meshnet.golden.comparing import SAME_BACKEND, RowErrors
from node_app.settings import LayerSpan
from tests.integration.node_app.reference_worker.torch_routes import torch_worker
from tests.integration.self_test.ranges import a_worker, golden_by, ranges_of, verdict_on, verdicts_on
from tests.simulators.tiny_models import TINY_MODELS, TinyModel, tiny_model

pytestmark = pytest.mark.native

TORCH = [model for model in TINY_MODELS if model.architecture in {"llama", "qwen2", "qwen3"}]


def worst(found: dict[str, RowErrors]) -> str:
    """The worst figures by kind of range; near is by the narrower tolerance."""
    return "; ".join(f"{kind}: {errors.describe(SAME_BACKEND)}" for kind, errors in found.items())


@pytest.mark.parametrize("spec", TINY_MODELS, ids=lambda spec: spec.architecture)
async def test_every_range_passes_and_its_neighbour_in_its_place_fails(
    spec: TinyModel, tmp_path: Path, worker_program: Path
) -> None:
    model = tiny_model(spec, tmp_path)
    async with a_worker(worker_program, tmp_path) as client:
        golden = await golden_by(client, model)
        passed, found = await verdicts_on(client, model, golden)
        inner = [
            layers for layers in ranges_of(golden) if layers.layer_begin > 0 and layers.layer_end < golden.n_layers
        ]
        singles = [layers for layers in inner if layers.layer_end - layers.layer_begin == 1]
        controls = [
            await verdict_on(client, model, other, golden, tested_as=layers) for layers, other in pairwise(singles)
        ]
    print(f"{spec.architecture}: ranges {len(passed)}, controls {len(controls)}; {worst(found)}")
    assert [one.text for one in passed if not one.is_passed] == []
    assert len(controls) >= 1
    assert [one.text for one in controls if one.is_passed] == []


@pytest.mark.torch
@pytest.mark.parametrize("spec", TORCH, ids=lambda spec: spec.architecture)
async def test_another_engine_passes_within_its_wider_tolerance(
    spec: TinyModel, tmp_path: Path, worker_program: Path
) -> None:
    model = tiny_model(spec, tmp_path)
    async with a_worker(worker_program, tmp_path) as client:
        golden = await golden_by(client, model)
    async with a_worker(torch_worker(tmp_path), tmp_path) as client:
        passed, found = await verdicts_on(client, model, golden)
        control = await verdict_on(client, model, LayerSpan(1, 2), golden, tested_as=LayerSpan(2, 3))
    print(f"{spec.architecture} by torch: ranges {len(passed)}; {worst(found)}; control: {control.text}")
    assert passed
    assert [one.text for one in passed if not one.is_passed] == []
    assert "error 0.15 at most" in passed[0].text
    assert not control.is_passed
