"""The tiny models' files: the recorded bytes on this machine, and what differs in them."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from gguf import GGUFReader

from tests.simulators.tiny_models import TINY_MODELS, TinyModel, tiny_model, write_tiny_model

ROOT = Path(__file__).resolve().parents[3]
MAX_BYTES = 4 << 20


@pytest.mark.parametrize("model", TINY_MODELS, ids=lambda model: model.architecture)
def test_a_file_is_what_its_recipe_gives(model: TinyModel, tmp_path: Path) -> None:
    path = tiny_model(model, tmp_path)
    assert path.stat().st_size <= MAX_BYTES
    blocks = {int(tensor.name.split(".")[1]) for tensor in GGUFReader(path).tensors if tensor.name.startswith("blk.")}
    drafting = {"glm4moe": 1}.get(model.architecture, 0)
    assert blocks == set(range(model.layers + drafting))


def test_a_file_that_is_something_else_is_made_anew(tmp_path: Path) -> None:
    path = tiny_model(TINY_MODELS[0], tmp_path)
    right = path.read_bytes()
    path.write_bytes(right[:-1])
    assert tiny_model(TINY_MODELS[0], tmp_path).read_bytes() == right


def test_another_seed_gives_other_bytes_which_are_refused(tmp_path: Path) -> None:
    other = replace(TINY_MODELS[0], seed=TINY_MODELS[0].seed + 1)
    first = write_tiny_model(TINY_MODELS[0], tmp_path / "first.gguf")
    assert write_tiny_model(other, tmp_path / "other.gguf").read_bytes() != first.read_bytes()
    with pytest.raises(ValueError, match="digest"):
        tiny_model(other, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.gguf", "other.gguf"]


def test_processes_that_make_one_file_at_once_do_not_write_into_each_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / f"{TINY_MODELS[0].architecture}.1.partial"
    foreign.write_bytes(b"half of it")
    monkeypatch.setattr(os, "getpid", lambda: 2)
    tiny_model(TINY_MODELS[0], tmp_path)
    assert foreign.read_bytes() == b"half of it"
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".gguf", ".partial"]


def test_the_worker_and_its_tests_name_the_same_architectures() -> None:
    architectures = [model.architecture for model in TINY_MODELS]
    served = (ROOT / "native/src/engine/llama_artifact.cpp").read_text(encoding="utf-8")
    tested = (ROOT / "native/tests/engine/llama_architecture_test.cpp").read_text(encoding="utf-8")
    for source, begin in ((served, "kArchitectures = {"), (tested, "LlamaArchitectureTest,\n")):
        listed = source.split(begin, 1)[1].split(";" if begin.endswith("{") else ")", 1)[0]
        assert re.findall(r'"([a-z0-9-]+)"', listed) == architectures
