"""The generated model is the same file every time, and what its name says."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf import GGMLQuantizationType, GGUFReader

from tests.bench import generated_model
from tests.bench.generated_model import Shape, file_sha256, write_model
from tests.bench.generated_model import generated_model as make

TINY = Shape(layers=2, width=128, feed_forward=256, heads=2, kv_heads=1, vocabulary=64, context_length=64)
TINY_SHA256 = "b3bb1ffccd31df37776d4daac1135e03c71da7a74202d7ae8b5900fe6292e05f"


def written(path: Path, shape: Shape = TINY) -> Path:
    write_model(path, shape, lambda _done, _of: None)
    return path


def test_equal_seeds_give_equal_bytes_on_every_machine(tmp_path: Path) -> None:
    first, second = (file_sha256(written(tmp_path / name)) for name in ("a.gguf", "b.gguf"))
    assert first == second == TINY_SHA256


def test_its_matrices_are_q4_0_and_there_are_about_a_billion_weights(tmp_path: Path) -> None:
    tensors = {one.name: one for one in GGUFReader(written(tmp_path / "a.gguf")).tensors}
    matrices = {name: tensor for name, tensor in tensors.items() if not name.endswith("norm.weight")}
    assert {tensor.tensor_type for tensor in matrices.values()} == {GGMLQuantizationType.Q4_0}
    assert sum(int(tensor.n_elements) for tensor in matrices.values()) == TINY.parameters
    assert 1.0e9 < Shape().parameters < 1.2e9


def test_another_file_in_its_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "generated-1b-q4_0.gguf")
    with pytest.raises(ValueError, match="has the digest"):
        make(tmp_path, lambda _done, _of: None)
    monkeypatch.setattr(generated_model, "FILE_SHA256", TINY_SHA256)
    assert make(tmp_path, lambda _done, _of: None).exists()
