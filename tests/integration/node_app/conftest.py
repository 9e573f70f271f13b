from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulators.fake_model import write_fake_model
from tests.simulators.launcher import write_worker_program


@pytest.fixture
def fake_model(tmp_path: Path) -> Path:
    return write_fake_model(tmp_path / "fake.gguf", n_layers=4, width=16, context_length=512)


@pytest.fixture
def simulated_worker(tmp_path: Path) -> Path:
    return write_worker_program(tmp_path)


@pytest.fixture(params=["simulator", pytest.param("native", marks=pytest.mark.native)])
def worker(request: pytest.FixtureRequest, tmp_path: Path, worker_program: Path) -> Path:
    """Each worker program there is, with the FakeEngine."""
    return worker_program if request.param == "native" else write_worker_program(tmp_path)
