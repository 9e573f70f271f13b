from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulators.tiny_models import TINY_MODELS, TinyModel, tiny_model

ARCHITECTURES = ("llama", "qwen2", "qwen3")


@pytest.fixture(
    scope="module",
    params=[one for one in TINY_MODELS if one.architecture in ARCHITECTURES],
    ids=lambda one: one.architecture,
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated model of each architecture that the engine computes."""
    spec: TinyModel = request.param
    return tiny_model(spec, tmp_path_factory.mktemp("models"))
