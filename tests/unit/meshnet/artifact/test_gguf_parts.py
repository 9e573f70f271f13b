from __future__ import annotations

import struct
from pathlib import Path

import pytest

from meshnet.artifact.gguf import artifact_digest, read_available, read_header, write_vocab_only
from meshnet.errors import ArtifactError
from tests.simulators.fake_model import write_fake_model
from tests.unit.meshnet.artifact.gguf_bytes import MODEL_KEYS, GgufFile, entry, string, tensor, tensors_of_layer

INT32 = 5


def split_keys(number: int, count: int, tensors: int = 2) -> list[bytes]:
    return [entry("split.no", number), entry("split.count", count), entry("split.tensors.count", tensors)]


def write_parts(folder: Path, *, second_no: int = 1, second_count: int = 3, tensors: int = 2) -> Path:
    """A first part of metadata only and two parts of one layer each."""
    first = GgufFile(keys=[*MODEL_KEYS, *split_keys(0, 3, tensors)], tensors=[], data=b"")
    second = GgufFile(keys=split_keys(second_no, second_count, tensors), tensors=[tensor("blk.0.weight", [8], 0)])
    third = GgufFile(keys=split_keys(2, 3, tensors), tensors=[tensor("blk.1.weight", [8], 0)])
    for number, part in enumerate((first, second, third), start=1):
        part.write(folder / f"model-{number:05}-of-00003.gguf")
    return folder / "model-00001-of-00003.gguf"


def test_a_first_part_of_metadata_only(tmp_path: Path) -> None:
    header = read_header(write_parts(tmp_path))
    assert [path.name[6:11] for path in header.paths] == ["00001", "00002", "00003"]
    assert [len(tensors_of_layer(header, layer)) for layer in range(header.n_layers)] == [1, 1]


def test_a_missing_part(tmp_path: Path) -> None:
    path = write_parts(tmp_path)
    (tmp_path / "model-00003-of-00003.gguf").unlink()
    with pytest.raises(ArtifactError) as refused:
        read_header(path)
    assert refused.value.code == "missing_part"


def test_a_later_part_that_is_cut_is_named(tmp_path: Path) -> None:
    path = write_parts(tmp_path)
    last = tmp_path / "model-00003-of-00003.gguf"
    last.write_bytes(last.read_bytes()[:-40])
    with pytest.raises(ArtifactError) as refused:
        read_header(path)
    assert refused.value.code == "truncated"
    assert refused.value.message.startswith(f"{last} is shorter ")


def test_another_part_than_the_first(tmp_path: Path) -> None:
    write_parts(tmp_path)
    with pytest.raises(ArtifactError) as refused:
        read_header(tmp_path / "model-00002-of-00003.gguf")
    assert refused.value.code == "not_first_part"


@pytest.mark.parametrize("wrong", [{"second_no": 2}, {"second_count": 4}])
def test_mixed_up_parts(wrong: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as refused:
        read_header(write_parts(tmp_path, **wrong))
    assert refused.value.code == "bad_metadata"


def test_a_part_of_a_negative_number_does_not_come_before_the_first(tmp_path: Path) -> None:
    first = GgufFile(keys=[*MODEL_KEYS, *split_keys(0, 1)]).write(tmp_path / "first.gguf")
    negative = [*MODEL_KEYS, string("split.no") + struct.pack("<Ii", INT32, -1), *split_keys(0, 1)[1:]]
    other = GgufFile(keys=negative, tensors=[tensor("blk.1.other", [8], 0)]).write(tmp_path / "other.gguf")
    with pytest.raises(ArtifactError) as refused:
        read_available([first, other])
    assert refused.value.code == "bad_metadata"
    assert read_available([first]).header.paths == (first,)


def test_fewer_tensors_than_promised(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as refused:
        read_header(write_parts(tmp_path, tensors=3))
    assert refused.value.code == "missing_part"


def test_a_renamed_first_part(tmp_path: Path) -> None:
    renamed = write_parts(tmp_path).rename(tmp_path / "model.gguf")
    with pytest.raises(ArtifactError) as refused:
        read_header(renamed)
    assert refused.value.code == "bad_metadata"


def test_digest_is_of_the_content_in_order(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = read_header(write_parts(tmp_path)).paths
    same = read_header(write_parts(tmp_path / "other")).paths
    assert artifact_digest(paths) == artifact_digest(same)
    assert artifact_digest(paths) != artifact_digest(reversed(paths))
    assert len(artifact_digest(paths)) == 32


def test_vocab_only_keeps_the_metadata_and_drops_tensors_and_split(tmp_path: Path) -> None:
    header = read_header(write_parts(tmp_path))
    write_vocab_only(header, header.paths[0], tmp_path / "vocab.gguf")
    copy = read_header(tmp_path / "vocab.gguf")
    assert copy.tensors == ()
    assert copy.metadata == {key: value for key, value in header.metadata.items() if not key.startswith("split.")}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *sorted(path.name for path in header.paths),
        "vocab.gguf",
    ]


def test_vocab_only_of_a_file_that_shrank_leaves_no_target(tmp_path: Path) -> None:
    path = GgufFile().write(tmp_path / "model.gguf")
    header = read_header(path)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(ArtifactError):
        write_vocab_only(header, path, tmp_path / "vocab.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


def test_the_fake_model_is_a_model(tmp_path: Path) -> None:
    header = read_header(write_fake_model(tmp_path / "fake.gguf", n_layers=6, width=24, context_length=512))
    assert (header.architecture, header.n_layers, header.embedding_length, header.context_length) == (
        "fake",
        6,
        24,
        512,
    )
    assert [len(tensors_of_layer(header, layer)) for layer in range(6)] == [1] * 6
    tokens = header.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, tuple)
    assert tokens[256:] == ("<s>", "</s>", "<|user|>", "<|assistant|>")
    assert "<|assistant|>" in header.text("tokenizer.chat_template")
    again = write_fake_model(tmp_path / "again.gguf", n_layers=6, width=24, context_length=512)
    assert artifact_digest([again]) == artifact_digest(header.paths)
