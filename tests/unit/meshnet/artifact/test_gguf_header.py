from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshnet.artifact.gguf import layer_of, read_header
from meshnet.errors import ArtifactError
from tests.unit.meshnet.artifact.gguf_bytes import (
    ARRAY,
    MODEL_KEYS,
    STRING,
    UINT32,
    GgufFile,
    entry,
    string,
    tensor,
    tensors_of_layer,
)


def test_a_sound_file(tmp_path: Path) -> None:
    header = read_header(GgufFile().write(tmp_path / "model.gguf"))
    assert (header.architecture, header.n_layers, header.context_length, header.embedding_length) == (
        "llama",
        2,
        128,
        8,
    )
    (first,) = tensors_of_layer(header, 0)
    assert (first.name, first.shape, first.size_bytes) == ("blk.0.weight", (8,), 32)
    assert first.offset_bytes == header.parts[0].data_offset_bytes
    assert header.paths == (tmp_path / "model.gguf",)


def test_layers_by_name() -> None:
    names = ["blk.0.attn_q.weight", "blk.42.ffn_up.weight", "token_embd.weight", "output.weight", "blk.x.y", "xblk.1.y"]
    assert [layer_of(name) for name in names] == [0, 42, None, None, None, None]


def test_text_that_is_no_utf_8_is_kept(tmp_path: Path) -> None:
    raw = struct.pack("<IIQ", ARRAY, STRING, 1) + struct.pack("<Q", 2) + b"\xff\xfe"
    header = read_header(GgufFile(keys=[*MODEL_KEYS, string("tokens") + raw]).write(tmp_path / "m.gguf"))
    (token,) = header.metadata["tokens"]  # type: ignore[misc]
    assert token.encode("utf-8", errors="surrogateescape") == b"\xff\xfe"


def one_tensor(**changes: Any) -> GgufFile:
    fields = {"name": "blk.0.weight", "shape": [8], "offset_bytes": 0} | changes
    return GgufFile(tensors=[tensor(**fields)])


def array_of(element: int, count: int, data: bytes = b"") -> bytes:
    return string("list") + struct.pack("<IIQ", ARRAY, element, count) + data


def of_architecture(name: str) -> GgufFile:
    keys = [entry(f"{name}.{key}", 2) for key in ("block_count", "context_length", "embedding_length")]
    return GgufFile(keys=[entry("general.architecture", name), *keys])


BAD_FILES: dict[str, tuple[str, GgufFile]] = {
    "other_magic": ("not_gguf", GgufFile(magic=b"GGML")),
    "version_1": ("unsupported_version", GgufFile(version=1)),
    "big_endian_version": ("unsupported_version", GgufFile(version=0x03000000)),
    "too_many_keys": ("limit_exceeded", GgufFile(n_keys=2**63)),
    "too_many_tensors": ("limit_exceeded", GgufFile(n_tensors=2**63)),
    "more_keys_than_there_are": ("bad_metadata", GgufFile(n_keys=60_000, tensors=[], data=b"\xff" * 64)),
    "key_too_long": ("limit_exceeded", GgufFile(keys=[struct.pack("<Q", 2**40)])),
    "string_longer_than_the_file": (
        "truncated",
        GgufFile(keys=[string("k") + struct.pack("<IQ", STRING, 100_000)], tensors=[]),
    ),
    "string_beyond_all_limits": (
        "limit_exceeded",
        GgufFile(keys=[string("k") + struct.pack("<IQ", STRING, 2**50)], tensors=[]),
    ),
    "array_longer_than_the_file": ("truncated", GgufFile(keys=[array_of(UINT32, 100_000)], tensors=[])),
    "array_beyond_all_limits": ("limit_exceeded", GgufFile(keys=[array_of(UINT32, 2**60)], tensors=[])),
    "array_of_strings_longer_than_the_file": ("truncated", GgufFile(keys=[array_of(STRING, 3_000_000)], tensors=[])),
    "array_of_arrays": ("bad_metadata", GgufFile(keys=[array_of(ARRAY, 1)], tensors=[])),
    "unknown_value_type": ("bad_metadata", GgufFile(keys=[string("k") + struct.pack("<I", 77)])),
    "unknown_element_type": ("bad_metadata", GgufFile(keys=[array_of(77, 1)])),
    "key_twice": ("bad_metadata", GgufFile(keys=[*MODEL_KEYS, MODEL_KEYS[0]])),
    "key_empty": ("bad_metadata", GgufFile(keys=[entry("", 1)])),
    "alignment_of_zero": ("bad_metadata", GgufFile(keys=[*MODEL_KEYS, entry("general.alignment", 0)])),
    "alignment_of_33": ("bad_metadata", GgufFile(keys=[*MODEL_KEYS, entry("general.alignment", 33)])),
    "alignment_as_text": ("bad_metadata", GgufFile(keys=[*MODEL_KEYS, entry("general.alignment", "32")])),
    "tensor_name_too_long": ("limit_exceeded", one_tensor(name="n" * 64)),
    "tensor_without_name": ("bad_tensor", one_tensor(name="")),
    "tensor_of_no_dimension": ("bad_tensor", one_tensor(shape=[])),
    "tensor_of_five_dimensions": ("bad_tensor", one_tensor(shape=[1] * 5)),
    "tensor_of_size_zero": ("bad_tensor", one_tensor(shape=[8, 0])),
    "tensor_of_half_a_block": ("bad_tensor", one_tensor(shape=[16], type_number=2)),
    "tensor_of_unknown_type": ("unsupported_tensor_type", one_tensor(type_number=4)),
    "tensor_larger_than_any_file": ("limit_exceeded", one_tensor(shape=[2**40, 2**40])),
    "tensor_not_aligned": ("bad_tensor", one_tensor(offset_bytes=8)),
    "tensor_beyond_the_end": ("truncated", one_tensor(shape=[17])),
    "tensor_offset_overflows": ("truncated", one_tensor(offset_bytes=2**64 - 32)),
    "tensors_overlap": ("bad_tensor", GgufFile(tensors=[tensor("a", [16], 0), tensor("b", [8], 32)])),
    "tensors_of_one_name": ("bad_tensor", GgufFile(tensors=[tensor("a", [8], 0), tensor("a", [8], 32)])),
    "tensor_of_a_layer_too_many": ("bad_tensor", one_tensor(name="blk.2.weight")),
    "layers_missing": ("bad_metadata", GgufFile(keys=[MODEL_KEYS[0]])),
    "architecture_missing": ("bad_metadata", GgufFile(keys=MODEL_KEYS[1:])),
    "architecture_empty": ("bad_metadata", of_architecture("")),
    "architecture_too_long": ("bad_metadata", of_architecture("a" * 65)),
    "architecture_of_escapes": ("bad_metadata", of_architecture("\x1b[2J")),
    "architecture_of_two_lines": ("bad_metadata", of_architecture("llama\n")),
    "architecture_of_other_letters": ("bad_metadata", of_architecture("llama\u0663")),
    "layers_as_text": ("bad_metadata", GgufFile(keys=[MODEL_KEYS[0], entry("llama.block_count", "2")])),
    "layers_as_bool": ("bad_metadata", GgufFile(keys=[MODEL_KEYS[0], entry("llama.block_count", True)])),
    "layers_beyond_all_limits": ("bad_metadata", GgufFile(keys=[MODEL_KEYS[0], entry("llama.block_count", 5000)])),
}


@pytest.mark.parametrize(("code", "file"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_file(code: str, file: GgufFile, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as refused:
        read_header(file.write(tmp_path / "model.gguf"))
    assert refused.value.code == code
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 200


def test_paths_are_shown_whole_and_as_one_line(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[2J\n\udcff.gguf"
    for text, code in (("no model, but long enough", "not_gguf"), ("GGUF\3", "truncated"), (None, "unreadable")):
        path.unlink() if text is None else path.write_text(text)
        with pytest.raises(ArtifactError) as refused:
            read_header(path)
        assert refused.value.code == code
        assert refused.value.message.startswith(f"{tmp_path}/?[2J??.gguf")
        assert refused.value.message.isprintable()


def test_every_cut_of_the_file_is_noticed(tmp_path: Path) -> None:
    whole = GgufFile().to_bytes()
    codes, path = set(), tmp_path / "model.gguf"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ArtifactError) as refused:
            read_header(path)
        codes.add(refused.value.code)
        is_cut = refused.value.code == "truncated"
        assert is_cut is (refused.value.message == f"{path} is shorter than its header promises: fetch it again")
    print(json.dumps({"cuts": len(whole), "codes": sorted(codes)}))
    assert codes == {"not_gguf", "truncated"}


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "absent.gguf", ": No such file or directory"), (tmp_path, " is not a regular file")):
        with pytest.raises(ArtifactError) as refused:
            read_header(path)
        assert (refused.value.code, refused.value.message) == ("unreadable", f"{path}{why}")


def test_a_long_path_is_shown_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "/".join(["folder"] * 60) / "absent.gguf"
    with pytest.raises(ArtifactError) as refused:
        read_header(path)
    assert refused.value.message == f"{path}: No such file or directory"


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), min_size=1, max_size=6),
    st.integers(0, 300),
    st.booleans(),
)
def test_whatever_the_bytes_nothing_but_a_typed_error(
    tmp_path: Path, changes: list[tuple[int, int]], length: int, cut: bool
) -> None:
    data = bytearray(GgufFile().to_bytes())
    for at, value in changes:
        data[at % len(data)] = value
    path = tmp_path / "model.gguf"
    path.write_bytes(data[:length] if cut else data)
    try:
        header = read_header(path)
    except ArtifactError:
        return
    assert all(t.offset_bytes + t.size_bytes <= header.parts[0].file_bytes for t in header.tensors)
