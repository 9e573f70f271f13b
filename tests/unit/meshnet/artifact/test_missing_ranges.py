"""Holes of sparse files are found where they lie in tensors that matter, and nowhere else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from meshnet.artifact.gguf import MissingRange, missing_ranges, read_header, refuse_missing
from meshnet.errors import ArtifactError
from tests.simulators.fake_model import write_fake_model

if TYPE_CHECKING:
    from pathlib import Path

PAGE = os.sysconf("SC_PAGESIZE")
WIDTH = 64  # a layer of 16 KiB: several pages


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_fake_model(tmp_path / "whole.gguf", n_layers=4, width=WIDTH)


def with_holes(whole: Path, *holes: tuple[int, int]) -> Path:
    """A copy without these bytes, as long as the whole."""
    data, sparse = whole.read_bytes(), whole.with_name("sparse.gguf")
    with sparse.open("wb") as file:
        at = 0
        for begin, end in holes:
            file.write(data[at:begin])
            file.seek(end)
            at = end
        file.write(data[at:])
        file.truncate(len(data))
    return sparse


def place(path: Path, name: str) -> tuple[int, int]:
    (tensor,) = (one for one in read_header(path).tensors if one.name == name)
    return tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes


def test_a_whole_file_lacks_nothing(whole: Path) -> None:
    header = read_header(whole)
    assert missing_ranges(header, {tensor.name for tensor in header.tensors}) == []


def test_each_hole_is_named_by_its_tensor_and_bytes(whole: Path) -> None:
    begin, end = place(whole, "blk.1.weight")
    first = -(-begin // PAGE) * PAGE
    holes = [(first, first + PAGE), (first + 2 * PAGE, first + 3 * PAGE)]
    assert holes[-1][1] <= end
    header = read_header(with_holes(whole, *holes))
    expected = [MissingRange("sparse.gguf", "blk.1.weight", *hole) for hole in holes]
    assert missing_ranges(header, {"blk.1.weight"}) == expected
    assert missing_ranges(header, {"blk.0.weight", "blk.2.weight"}) == []


def test_names_are_shown_as_one_line() -> None:
    hole = MissingRange("model\n.gguf", "blk.1\x1b[2J\udcff", 0, 4096)
    assert str(hole) == "blk.1?[2J? (bytes 0 to 4096 of model?.gguf)"


def test_a_hole_over_several_tensors_is_cut_to_each(whole: Path) -> None:
    hole = place(whole, "blk.1.weight")[0] // PAGE * PAGE + PAGE, place(whole, "blk.3.weight")[0] // PAGE * PAGE
    header = read_header(with_holes(whole, hole))
    found = missing_ranges(header, {f"blk.{layer}.weight" for layer in range(4)})
    assert [one.tensor_name for one in found] == ["blk.1.weight", "blk.2.weight"]
    assert found[0].begin_bytes == hole[0]
    assert (found[0].end_bytes, found[1].begin_bytes) == (
        place(whole, "blk.1.weight")[1],
        place(whole, "blk.2.weight")[0],
    )


def test_a_file_that_was_only_made_long_lacks_all_but_its_beginning(whole: Path) -> None:
    begin = place(whole, "blk.0.weight")[0] // PAGE * PAGE + PAGE
    header = read_header(with_holes(whole, (begin, whole.stat().st_size)))
    with pytest.raises(ArtifactError, match="missing_range") as caught:
        refuse_missing(header, {tensor.name for tensor in header.tensors})
    assert caught.value.message.startswith("the file is sparse and lacks blk.0.weight (bytes ")
    assert caught.value.message.endswith(" and 2 more; fetch it again")
    refuse_missing(header, {"token_embd.weight"})
