"""The model against the architectures that are served and against this machine's memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from meshnet.artifact.model.caches import LayerCache, Rows
from meshnet.errors import ArtifactError, MeshnetError
from node_app.artifacts.model_file import open_model
from node_app.doctor.findings import Verdict
from node_app.doctor.judging.model import (
    judge_hardware,
    judge_memory,
    judge_model,
    judge_refusal,
)
from node_app.hardware.base import MachineFigures
from node_app.settings import LayerSpan, SettingsError
from node_app.worker.limits import AskedLimits
from tests.simulators.fake_model import write_fake_model

GIB = 1024**3


@pytest.fixture
def fake_model(tmp_path: Path) -> Path:
    return write_fake_model(tmp_path / "fake.gguf", n_layers=4, width=16, context_length=512)


def test_a_model_is_described(fake_model: Path) -> None:
    finding = judge_model(open_model(fake_model, LayerSpan(1, 3)))
    assert finding.verdict is Verdict.OK
    assert finding.summary.startswith("fake.gguf: fake, layers 1:3 of 4, ")
    assert finding.summary.endswith("complete")


@pytest.mark.parametrize(
    ("error", "is_file", "advice"),
    [
        (ArtifactError("unreadable", "t", "m.gguf: no such file"), False, "there is no such file"),
        (ArtifactError("truncated", "t", "m.gguf is cut off"), True, "download the file again"),
        (SettingsError("--layers 0:9: the model has 4 layers"), True, "--layers"),
    ],
)
def test_a_model_that_cannot_be_opened(error: MeshnetError, is_file: bool, advice: str) -> None:
    finding = judge_refusal(error, is_file=is_file)
    assert (finding.verdict, finding.summary) == (Verdict.FAILED, error.message)
    assert advice in finding.advice
    assert ("download" in finding.advice) == (advice == "download the file again")


def test_an_architecture_that_is_not_served_fails(fake_model: Path) -> None:
    finding = judge_model(replace(open_model(fake_model, None), architecture="mamba"))
    assert finding.verdict is Verdict.FAILED
    assert "mamba" in finding.summary
    assert "llama, qwen2, qwen3" in finding.advice


@pytest.mark.parametrize(
    ("memory_bytes", "verdict", "part"),
    [
        (None, Verdict.OK, "4 sessions of 512 positions fit"),
        (16 * GIB, Verdict.OK, "4 sessions of 512 positions fit"),
        (3 * GIB, Verdict.WARNING, "only 2 sessions of 512 positions fit, 4 were asked for"),
        (1 * GIB, Verdict.FAILED, "are available"),
    ],
)
def test_memory(memory_bytes: int | None, verdict: Verdict, part: str, fake_model: Path) -> None:
    caches = (LayerCache((Rows(2 << 20),)),)
    model = replace(open_model(fake_model, None), caches=caches, weights_bytes=128 << 20)
    finding = judge_memory(model, AskedLimits(None, None, 4), MachineFigures(2, memory_bytes, memory_bytes))
    assert finding.verdict is verdict
    assert part in finding.summary
    assert bool(finding.advice) == (verdict is not Verdict.OK)


def test_a_context_beyond_the_model_fails(fake_model: Path) -> None:
    figures = MachineFigures(2, 16 * GIB, 16 * GIB)
    finding = judge_memory(open_model(fake_model, None), AskedLimits(None, 1024, 4), figures)
    assert finding.verdict is Verdict.FAILED
    assert "512 positions" in finding.summary


def test_hardware() -> None:
    good = judge_hardware(MachineFigures(4, 8 * GIB, 6 * GIB))
    assert (good.verdict, good.summary) == (Verdict.OK, "4 cores, 6.0 of 8.0 GiB of memory available")
    unknown = judge_hardware(MachineFigures(4, None, None))
    assert unknown.verdict is Verdict.WARNING
