"""What `meshnet doctor` asks a torch worker, and how it judges the answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from node_app.doctor.findings import Verdict
from node_app.doctor.judging.worker import judge_devices, judge_version
from node_app.doctor.reading.programs import run_worker
from tests.integration.node_app.reference_worker.torch_routes import torch_worker

pytestmark = pytest.mark.torch


def test_a_torch_worker_is_judged_as_any_other(tmp_path: Path) -> None:
    program = torch_worker(tmp_path)
    worker, exact = judge_version(run_worker(program, "--version"))
    devices = judge_devices(run_worker(program, "--list-devices"))
    assert [found.verdict for found in (worker, exact, devices)] == [Verdict.OK] * 3
    assert "torch 2" in worker.summary
    assert "backend torch" in exact.summary
    assert "CPU (PyTorch" in devices.summary
    # The control: what it does not know is no report.
    assert next(judge_version(run_worker(program, "--versions"))).verdict is Verdict.FAILED
