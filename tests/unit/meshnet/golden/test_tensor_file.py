"""The safetensors subset: what is written is read, and nothing that cannot be is."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.errors import ArtifactError
from meshnet.golden.tensor_file import Matrix, header_bytes, parse_header, write_tensors

ROWS = Matrix("hidden.1", "F32", (2, 3), bytes(range(24)))
IDS = Matrix("token_ids", "I32", (1, 2), bytes(8))


def with_header(fields: object, data: bytes = b"") -> bytes:
    header = json.dumps(fields).encode()
    return len(header).to_bytes(8, "little") + header + data


def test_what_is_written_is_read() -> None:
    file = write_tensors({"format": "x"}, [IDS, ROWS])
    header = parse_header(file)
    assert header.words == {"format": "x"}
    assert list(header.places) == ["token_ids", "hidden.1"]
    place = header.places["hidden.1"]
    assert (place.dtype, place.shape, place.end - place.begin) == ("F32", (2, 3), 24)
    assert file[header.data_at + place.begin :] == ROWS.data
    assert header.file_bytes == len(file)
    assert header.data_at % 8 == 0


def test_other_programs_read_it(tmp_path: Path) -> None:
    """The format is everybody's: its own rules, from its page, read here by hand."""
    file = write_tensors({}, [ROWS])
    length = int.from_bytes(file[:8], "little")
    entry = json.loads(file[8 : 8 + length])["hidden.1"]
    assert entry == {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


@pytest.mark.parametrize(
    "fields",
    [
        [],
        {"__metadata__": {"n": 1}},
        {"__metadata__": []},
        {"a": 1},
        {"a": {"dtype": ["F32"], "shape": [1, 1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F64", "shape": [1, 1], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1, True], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [0, 4], "data_offsets": [0, 0]}},
        {"a": {"dtype": "F32", "shape": [1, 2**40], "data_offsets": [0, 2**42]}},
        {"a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1, 1], "data_offsets": [4, 8]}},
        {
            "a": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]},
            "b": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]},
        },
    ],
)
def test_what_cannot_be_is_refused(fields: object) -> None:
    with pytest.raises(ArtifactError, match="not_golden"):
        parse_header(with_header(fields, bytes(8)))


@pytest.mark.parametrize("data", [b"", b"short", bytes(8), b"\xff" * 8, (2**20 + 1).to_bytes(8, "little")])
def test_a_length_that_cannot_be_is_refused(data: bytes) -> None:
    with pytest.raises(ArtifactError, match="not_golden"):
        header_bytes(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(ArtifactError):
        parse_header(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(["", "dtype", "shape", "data_offsets", "__metadata__"]), JSON)
def test_any_value_in_a_header_is_read_or_refused(key: str, value: object) -> None:
    place: dict[str, object] = {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}
    fields = {"a": value if key == "" else place | {key: value}}
    with contextlib.suppress(ArtifactError):
        parse_header(with_header({"__metadata__": value, "a": place} if key == "__metadata__" else fields, bytes(4)))


@given(st.integers(0, 120), st.integers(0, 255))
def test_a_byte_that_differs_is_read_or_refused(at: int, value: int) -> None:
    file = bytearray(write_tensors({"format": "x"}, [IDS, ROWS]))
    file[at % len(file)] = value
    with contextlib.suppress(ArtifactError):
        parse_header(bytes(file))
