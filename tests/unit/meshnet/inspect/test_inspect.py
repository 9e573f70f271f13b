"""What is told of models: whole, without their data, in parts, and of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.errors import MeshnetError
from meshnet.inspect.main import main
from tests.simulators.deepseek_v4_flash import write_deepseek_v4_flash, write_deepseek_v4_flash_parts
from tests.simulators.fake_model import write_fake_model
from tests.simulators.gguf_header import HeaderTensor, Value, write_header

if TYPE_CHECKING:
    from collections.abc import Callable

Told = dict[str, Any]
GIB = 1 << 30


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    def tell(*arguments: str | Path) -> Told:
        assert main([*map(str, arguments), "--json"]) == 0
        found: Told = json.loads(capsys.readouterr().out)
        assert found["tensor_bytes"] + found["metadata_bytes"] + found["padding_bytes"] == found["file_bytes"]
        return found

    return tell


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write_deepseek_v4_flash(tmp_path / "v4.gguf")


def test_the_target(told: Callable[..., Told], target: Path) -> None:
    found = told(target)
    assert (found["architecture"], found["layers"], found["tensors"], found["hidden"]) == ("deepseek4", 43, 1328, 4096)
    assert found["file_bytes"] == found["here_bytes"] == target.stat().st_size
    assert found["legal_cuts"] == list(range(1, 43))
    assert found["seam"]["bytes_per_token"] == {"f32": 65_536, "bf16": 32_768, "q8_0": 17_408}
    assert (found["seam"]["streams"], found["seam"]["token_id_layers"]) == (4, 3)
    assert found["kv"]["bytes_per_token"] == 6880
    inventory = found["inventory"]
    parts = [inventory["head"], *inventory["layers"], inventory["tail"], inventory["nextn"], inventory["every_stage"]]
    assert sum(part["tensors"] for part in parts) == 1328
    assert sum(part["bytes"] for part in parts) == found["tensor_bytes"]
    assert sum(held["bytes"] for held in found["types"].values()) == found["tensor_bytes"]


def test_a_file_that_ends_with_its_header_tells_the_same(
    told: Callable[..., Told], target: Path, tmp_path: Path
) -> None:
    cut = write_deepseek_v4_flash(tmp_path / "cut.gguf", is_cut=True)
    assert cut.stat().st_size < 5_000_000
    whole, short = told(target), told(cut)
    assert (short.pop("here_bytes"), short.pop("files")) == (cut.stat().st_size, ["cut.gguf"])
    assert {key: whole[key] for key in short} == short


def test_parts_are_found_or_given_in_any_order(told: Callable[..., Told], target: Path, tmp_path: Path) -> None:
    first = write_deepseek_v4_flash_parts(tmp_path, 5)
    parts = sorted(tmp_path.glob("DeepSeek-*.gguf"))
    whole, found, given = told(target), told(first), told(*reversed(parts))
    assert found == given
    assert (len(parts), len(found["files"]), found["missing_parts"]) == (5, 5, [])
    assert [found[key] for key in ("layers", "tensors", "tensor_bytes", "inventory")] == [
        whole[key] for key in ("layers", "tensors", "tensor_bytes", "inventory")
    ]


def test_a_first_part_alone_tells_what_its_metadata_does(told: Callable[..., Told], tmp_path: Path) -> None:
    first = write_deepseek_v4_flash_parts(tmp_path, 5)
    for part in sorted(tmp_path.glob("DeepSeek-*.gguf"))[1:]:
        part.unlink()
    found = told(first)
    assert (found["layers"], found["tensors"], found["missing_parts"]) == (43, 0, [2, 3, 4, 5])
    assert (found["kv"]["bytes_per_token"], found["seam"]["elements_per_token"]) == (6880, 16_384)
    assert (found["legal_cuts"], found["ranges"]) == (list(range(1, 43)), [])
    for asked in (["--memory", "128G"], ["--layers", "0:5"]):
        with pytest.raises(MeshnetError, match="missing_part") as refused:
            main([str(first), *asked])
        assert "parts 2, 3, 4, 5 are missing" in refused.value.message


@pytest.mark.parametrize("nextn", [False, True])
@pytest.mark.parametrize("kept", [1, 3, 5])
def test_layers_and_nextn_blocks_are_counted_whatever_parts_are_here(
    told: Callable[..., Told], kept: int, *, nextn: bool, tmp_path: Path
) -> None:
    first = write_deepseek_v4_flash_parts(tmp_path, 5, nextn=nextn)
    for part in sorted(tmp_path.glob("DeepSeek-*.gguf"))[kept:]:
        part.unlink()
    found = told(first)
    assert (found["layers"], found["nextn_blocks"], found["seam"]["token_id_layers"]) == (43, int(nextn), 3)
    assert len(found["missing_parts"]) == 5 - kept


def test_what_ranges_take(told: Callable[..., Told], target: Path) -> None:
    found = told(target, "--context", "8192", "--sequences", "2", "--layers", "0:14", "--layers", "14:43")
    assert [one["layers"] for one in found["ranges"]] == [[0, 14], [14, 43]]
    assert sum(one["weight_bytes"] for one in found["ranges"]) == found["tensor_bytes"]
    whole = told(target, "--context", "8192", "--sequences", "2")["ranges"][0]
    assert sum(one["cache_bytes"] for one in found["ranges"]) == whole["cache_bytes"]
    for one in found["ranges"]:
        assert one["total_bytes"] == sum(one[part] for part in ("weight_bytes", "cache_bytes", "compute_bytes"))
        assert one["rewind_bytes"] > 0  # told beside the total: only a load that asks for it takes it


def test_a_split_over_machines(told: Callable[..., Told], target: Path) -> None:
    split = told(target, "--memory", "128G,80G,24G")["split"]
    assert [share["machine"] for share in split] == [0, 1]
    assert [share["layers"] for share in split] == [[0, split[0]["layers"][1]], [split[0]["layers"][1], 43]]
    assert all(share["total_bytes"] <= share["memory_bytes"] for share in split)
    assert [share["memory_bytes"] for share in split] == [128 * GIB, 80 * GIB]


def test_tables_for_people(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(target), "--memory", "128G,80G,24G"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "v4.gguf: deepseek4, 43 layers, hidden rows of 4096, 1048576 positions"
    assert "legal cuts: 1-42 (every cut: layers hand over hidden rows alone)" in lines
    assert "seam: 16384 values a token in 4 streams; bytes: f32 65536, bf16 32768, q8_0 17408" in lines
    assert any(line.startswith("20 layers 4, 6, ... 42 (every 2), each") for line in lines)
    assert lines[-3].startswith("machine  layers")


def test_tables_of_other_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write_fake_model(tmp_path / "fake.gguf", n_layers=6))]) == 0
    out = capsys.readouterr().out
    assert "6 layers 0-5, each" in out
    assert "the embedding is the output head too" in out
    cut = write_deepseek_v4_flash(tmp_path / "cut.gguf", is_cut=True, nextn=True)
    assert main([str(cut)]) == 0
    out = capsys.readouterr().out
    assert "43 layers and 1 nextn block(s)" in out
    assert "of the data are missing" in out
    assert "with nextn blocks a tail also needs the embedding's 1059061760 bytes" in out


REFUSED = {
    "illegal_cut": ["--layers", "0:3"],
    "no_such_layers": ["--layers", "0:13"],
    "context_too_long": ["--context", "1048577"],
    "model_too_large": ["--memory", "1M"],
}


@pytest.mark.parametrize(("code", "arguments"), REFUSED.items())
def test_questions_that_have_no_answer(code: str, arguments: list[str], tmp_path: Path) -> None:
    metadata = {"general.architecture": "glm-dsa"} | {
        f"glm-dsa.{key}": value
        for key, value in {
            "block_count": 12, "context_length": 1_048_576, "embedding_length": 64,
            "attention.key_length": 64, "attention.indexer.key_length": 32,
        }.items()
    }  # fmt: skip
    path = write_header(tmp_path / "m.gguf", metadata, [HeaderTensor("blk.0.attn_q.weight", (64, 64), "f32")])
    with pytest.raises(MeshnetError, match=code) as refused:
        main([str(path), *arguments])
    if code == "illegal_cut":
        assert "the model may not be cut between layers 2 and 3" in refused.value.message
        assert refused.value.message.endswith("the legal cuts beside it are 2 and 6")


def test_names_from_a_file_do_not_reach_the_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def metadata(architecture: str) -> dict[str, Value]:
        figures = {f"{architecture}.{key}": 8 for key in ("block_count", "context_length", "embedding_length")}
        return {"general.architecture": architecture, **figures}

    path = tmp_path / "m\x1b[2J.gguf"
    assert main([str(write_header(path, metadata("llama"), [])), "--context", "8"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    with pytest.raises(MeshnetError) as refused:
        main([str(write_header(path, metadata("a\x1b[2Jb"), []))])
    assert (refused.value.code, refused.value.message.isprintable()) == ("bad_metadata", True)


def test_a_wrong_command_line_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status in (([], 2), (["--help"], 0)):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == status
    assert "meshnet inspect" in capsys.readouterr().out
