"""One suite for every kind of worker: what a session may expect of a stage, whoever wrote it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.integration.workers.worker_kinds import Routes, native, simulated


@pytest.fixture(params=[simulated, pytest.param(native, marks=pytest.mark.native)], ids=["simulated", "native"])
def routes(request: pytest.FixtureRequest, tmp_path: Path) -> Routes:
    made: Routes = partial(request.param, tmp_path)
    return made
