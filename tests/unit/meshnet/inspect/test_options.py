from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.artifact.model.memory import Load
from meshnet.inspect.options import parse_options

GIB = 1 << 30


def test_a_file_alone() -> None:
    options = parse_options(["model.gguf"])
    assert (options.paths, options.load, options.ranges) == ((Path("model.gguf"),), Load(4096, 1), ())
    assert (options.memories, options.as_json) == ((), False)


def test_everything() -> None:
    options = parse_options(
        ["a.gguf", "b.gguf", "--context", "8192", "--sequences", "4", "--layers", "0:3", "--layers", "3:8",
         "--memory", "128G, 1.5GiB,300M,5", "--json"]
    )  # fmt: skip
    assert len(options.paths) == 2
    assert (options.load, options.ranges, options.as_json) == (Load(8192, 4), ((0, 3), (3, 8)), True)
    assert options.memories == (128 * GIB, GIB * 3 // 2, 300 << 20, 5)


WRONG = [
    [],
    ["m", "--context", "0"],
    ["m", "--context", "-5"],
    ["m", "--context", "9" * 40],
    ["m", "--context", "000000000001234"],
    ["m", "--context", "\u0663"],
    ["m", "--context", "8\n"],
    ["m", "--sequences", "four"],
    ["m", "--layers", "3"],
    ["m", "--layers", "3:3"],
    ["m", "--layers", "-1:3"],
    ["m", "--memory", ""],
    ["m", "--memory", "24GB"],
    ["m", "--memory", "0G"],
    ["m", "--memory", "1e9"],
    ["m", "--memory", "nan"],
    ["m", "--memory", "1G,,1G"],
    ["m", "--memory", "\u0663G"],
    ["m", "--layers", "\u0660:\u0663"],
    ["m", "--memory", "9999999T"],
    ["m", "--memory", ",".join(["1G"] * 9)],
    ["m", "--nonsense"],
]


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_command_lines(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse_options(arguments)
    assert stopped.value.code == 2
    assert "usage: meshnet inspect" in capsys.readouterr().err
