"""What a node finds wrong with a model before it starts a worker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from gguf import GGUFWriter

from meshnet.artifact.model.caches import LayerCache, Rows
from meshnet.errors import ArtifactError, MeshnetError
from node_app.artifacts.model_file import open_model
from node_app.settings import LayerSpan, SettingsError
from tests.simulators.fake_model import write_fake_model
from tests.simulators.gguf_header import HeaderTensor, write_header

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.gguf_header import Value

LAYERS, WIDTH, VOCAB = 4, 64, 32
LAYER_BYTES = WIDTH * WIDTH * 4
EMBEDDING_BYTES = VOCAB * WIDTH * 4
NORM_BYTES = WIDTH * 4


def write_model(path: Path, *, is_tied: bool) -> Path:
    """A tiny llama with two KV heads of width 16 (4 heads)."""
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(WIDTH)
    writer.add_context_length(2048)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_tensor("token_embd.weight", np.ones((VOCAB, WIDTH), dtype=np.float32))
    for layer in range(LAYERS):
        writer.add_tensor(f"blk.{layer}.attn_q.weight", np.ones((WIDTH, WIDTH), dtype=np.float32))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, dtype=np.float32))
    if not is_tied:
        writer.add_tensor("output.weight", np.ones((VOCAB, WIDTH), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize(
    ("span", "head", "tail"),
    [
        (None, True, True),
        (LayerSpan(0, 2), True, False),
        (LayerSpan(2, 4), False, True),
        (LayerSpan(1, 3), False, False),
    ],
)
def test_each_shard_owns_its_tensors(
    tmp_path: Path, span: LayerSpan | None, *, head: bool, tail: bool, is_tied: bool
) -> None:
    model = open_model(write_model(tmp_path / "m.gguf", is_tied=is_tied), span)
    n_layers = model.layers.layer_end - model.layers.layer_begin
    embeddings = (head or (tail and is_tied)) + (tail and not is_tied)
    assert model.weights_bytes == n_layers * LAYER_BYTES + embeddings * EMBEDDING_BYTES + tail * NORM_BYTES
    assert model.caches == (LayerCache((Rows(2 * (16 + 16) * 2),)),) * n_layers
    tail_bytes = tail * (EMBEDDING_BYTES + NORM_BYTES)
    assert model.tail_share == pytest.approx(tail_bytes / (tail_bytes + n_layers * LAYER_BYTES))


def test_a_fake_model_is_known_as_one(tmp_path: Path) -> None:
    model = open_model(write_fake_model(tmp_path / "fake.gguf", n_layers=6, width=16, context_length=512), None)
    assert model.is_fake
    assert (model.n_layers, model.width, model.context_length) == (6, 16, 512)
    assert model.layers == LayerSpan(0, 6)
    assert model.caches == (LayerCache(),) * 6


def test_layers_the_model_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="the model has 4 layers"):
        open_model(write_model(tmp_path / "m.gguf", is_tied=True), LayerSpan(2, 5))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def cut_in_header(path: Path) -> None:
    os.truncate(path, 40)


def garble(path: Path) -> None:
    path.write_bytes(b"not a model at all")


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "code"),
    [(cut, "truncated"), (cut_in_header, "truncated"), (garble, "not_gguf"), (remove, "unreadable")],
)
def test_a_wrong_file_is_refused_by_name_of_its_fault(tmp_path: Path, damage: object, code: str) -> None:
    path = write_model(tmp_path / "m.gguf", is_tied=True)
    damage(path)  # type: ignore[operator]
    with pytest.raises(ArtifactError) as caught:
        open_model(path, None)
    assert caught.value.code == code


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(MeshnetError):
        open_model(tmp_path, None)


def sparse_copy_without(path: Path, target: Path, offset_bytes: int, length_bytes: int) -> Path:
    data = path.read_bytes()
    with target.open("wb") as file:
        file.write(data[:offset_bytes])
        file.seek(offset_bytes + length_bytes)
        file.write(data[offset_bytes + length_bytes :])
    return target


def test_a_sparse_file_may_lack_what_is_not_owned_and_nothing_else(tmp_path: Path) -> None:
    whole = write_model(tmp_path / "whole.gguf", is_tied=True)
    # Layer 3 lies in the file's last quarter; a hole over one of its pages.
    page = os.sysconf("SC_PAGESIZE")
    end = whole.stat().st_size
    begin = (end - NORM_BYTES - LAYER_BYTES // 2) // page * page
    sparse = sparse_copy_without(whole, tmp_path / "sparse.gguf", begin, page)
    with sparse.open("rb") as file:
        if os.lseek(file.fileno(), 0, os.SEEK_HOLE) >= end:
            pytest.fail("this file system makes no holes; the check cannot be tested here")
    assert open_model(sparse, LayerSpan(0, 2)).weights_bytes > 0
    with pytest.raises(ArtifactError, match="missing_range") as caught:
        open_model(sparse, LayerSpan(2, 4))
    assert f"blk.3.attn_q.weight (bytes {begin} to {begin + page} of sparse.gguf)" in caught.value.message
    with pytest.raises(ArtifactError, match="missing_range"):
        open_model(sparse, None)


def with_shared_indexers(path: Path, architecture: str = "glm-dsa") -> Path:
    """Six layers, of which 1, 2, 4 and 5 take the selection of the one before them."""
    figures: dict[str, Value] = {
        "block_count": 6,
        "context_length": 2048,
        "embedding_length": WIDTH,
        "attention.key_length": WIDTH,
        "attention.indexer.key_length": 32,
        "attention.indexer.types": [1, 0, 0, 1, 0, 0],
    }
    metadata: dict[str, Value] = {"general.architecture": architecture}
    metadata |= {f"{architecture}.{key}": value for key, value in figures.items()}
    tensors = [HeaderTensor(f"blk.{layer}.attn_q.weight", (WIDTH, WIDTH), "f32") for layer in range(6)]
    path = write_header(path, metadata, tensors)
    # Holes would be refused.
    size_bytes = path.stat().st_size
    with path.open("r+b") as file:
        data = file.read()
        file.seek(0)
        file.write(data.ljust(size_bytes, b"\1"))
    return path


@pytest.mark.parametrize("span", [LayerSpan(0, 3), LayerSpan(3, 6), LayerSpan(0, 6)])
def test_layers_are_served_that_begin_and_end_where_the_model_may_be_cut(tmp_path: Path, span: LayerSpan) -> None:
    model = open_model(with_shared_indexers(tmp_path / "m.gguf"), span)
    assert model.layers == span
    latent, key = Rows(2 * WIDTH), Rows(2 * 32)
    one_selection = (LayerCache((latent, key)), LayerCache((latent,)), LayerCache((latent,)))
    assert model.caches == one_selection * ((span.layer_end - span.layer_begin) // 3)


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (LayerSpan(0, 2), "the model may not be cut between layers 1 and 2"),
        (LayerSpan(4, 6), "the model may not be cut between layers 3 and 4"),
    ],
)
def test_a_cut_that_is_not_legal_is_refused_by_name(tmp_path: Path, span: LayerSpan, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        open_model(with_shared_indexers(tmp_path / "m.gguf"), span)
    assert caught.value.code == "illegal_cut"
    assert caught.value.message.endswith("; the legal cuts beside it are 3")


def test_a_model_that_nobody_has_looked_at_is_served_whole_or_not_at_all(tmp_path: Path) -> None:
    path = with_shared_indexers(tmp_path / "m.gguf", "hy_v4")
    assert open_model(path, None).is_whole
    with pytest.raises(SettingsError, match="it is not known where this architecture may be cut"):
        open_model(path, LayerSpan(0, 3))
