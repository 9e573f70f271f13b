"""`meshnet inspect --json` as a program: what it takes on the first large target, and one line for a wrong file."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from meshnet.artifact.gguf.limits import (
    MAX_ARRAY_ELEMENTS,
    MAX_STRING_BYTES,
    MAX_TENSOR_NAME_BYTES,
    MAX_TENSORS,
    MAX_VALUE_BYTES,
)
from tests.simulators.deepseek_v4_flash import write_deepseek_v4_flash
from tests.unit.meshnet.artifact.gguf_bytes import ARRAY, MODEL_KEYS, STRING, GgufFile, entry, string, tensor

# Beside the interpreter that runs the tests; `make bootstrap` puts it there.
COMMAND = [str(Path(sys.executable).parent / "meshnet"), "inspect"]
WALL_S = 2.0
RESIDENT_BYTES = 300 * 1000 * 1000
ROUNDS = 3
UINT64 = 10
# Of a value's place in a tuple; of a number and its place.
POINTER_BYTES, NUMBER_BYTES = 8, 48


# The console script's own words, and then how large the program became: rusage would count what it was forked from.
MEASURED = """
import sys
from meshnet.cli import main
sys.argv[0] = "meshnet"
status = main()
sys.stderr.write(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1])
sys.exit(status)
"""


def run_measured(*arguments: str | Path) -> tuple[str, float, int]:
    """What it printed, how long it ran and how large it became, in bytes."""
    begun_s = time.monotonic()
    done = subprocess.run(measured(*arguments), capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, time.monotonic() - begun_s, int(done.stderr) * 1024


def run_refused(*arguments: str | Path) -> tuple[int, str]:
    """How large it became before it refused, in bytes, and what it told."""
    done = subprocess.run(measured(*arguments), capture_output=True, text=True, timeout=60, check=False)
    *told, size_kib = done.stderr.split("\n")
    assert done.returncode == 1
    return int(size_kib) * 1024, "\n".join(told)


def measured(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-c", MEASURED, "inspect", *map(str, arguments)]


@pytest.mark.parametrize("is_cut", [False, True], ids=["whole", "header alone"])
def test_the_target_is_read_quickly_and_in_little_memory(*, is_cut: bool, tmp_path: Path) -> None:
    path = write_deepseek_v4_flash(tmp_path / "v4.gguf", is_cut=is_cut)
    rounds = [run_measured(path, "--json", "--memory", "128G,80G,24G") for _ in range(ROUNDS)]
    found = json.loads(rounds[0][0])
    # The quickest of a few: how long a busy machine keeps a program waiting is not the program's doing.
    wall_s, resident_bytes = min(wall_s for _, wall_s, _ in rounds), max(size for _, _, size in rounds)
    print({"wall_s": round(wall_s, 3), "resident_bytes": resident_bytes, "tensors": found["tensors"]})
    assert found["layers"] == 43
    assert found["tensor_bytes"] + found["metadata_bytes"] + found["padding_bytes"] == found["file_bytes"]
    assert wall_s <= WALL_S
    assert resident_bytes <= RESIDENT_BYTES


def strings(key: str, text: str, count: int) -> bytes:
    """One array."""
    return string(key) + struct.pack("<IIQ", ARRAY, STRING, count) + string(text) * count


def wide_strings(size_bytes: int) -> bytes:
    """Strings of which one character makes Python keep four bytes for each."""
    text = "\N{GRINNING FACE}" + "a" * (MAX_STRING_BYTES - 4)
    return strings("wide", text, size_bytes // sys.getsizeof(text))


def short_strings(size_bytes: int) -> bytes:
    """Strings that take far more than their bytes in the file."""
    text = "\N{GRINNING FACE}abcdefg"
    return strings("short", text, size_bytes // (sys.getsizeof(text) + POINTER_BYTES))


def numbers(size_bytes: int) -> bytes:
    """Numbers that Python keeps in the largest objects."""
    count = min(MAX_ARRAY_ELEMENTS, size_bytes // NUMBER_BYTES)
    return string("numbers") + struct.pack("<IIQ", ARRAY, UINT64, count) + struct.pack("<Q", 2**64 - 1) * count


LARGE_VALUES = {"wide strings": wide_strings, "short strings": short_strings, "numbers": numbers}


@pytest.mark.parametrize("make", LARGE_VALUES.values(), ids=LARGE_VALUES)
def test_the_largest_headers_that_are_read_take_no_more(make: Callable[[int], bytes], tmp_path: Path) -> None:
    names = [f"blk.{number % 2}.{number}.".ljust(MAX_TENSOR_NAME_BYTES, "n") for number in range(MAX_TENSORS)]
    tensors = [tensor(name, [1, 1, 1, 1], 32 * number) for number, name in enumerate(names)]
    values = make(MAX_VALUE_BYTES - sum(sys.getsizeof(name) + POINTER_BYTES for name in names) - 10_000)
    path = tmp_path / "model.gguf"
    GgufFile(keys=[*MODEL_KEYS, values], tensors=tensors).write(path)
    printed, wall_s, resident_bytes = run_measured(path, "--json", "--context", "8")
    found = json.loads(printed)
    print({"header_bytes": found["metadata_bytes"], "wall_s": round(wall_s, 2), "resident_bytes": resident_bytes})
    assert found["tensors"] == MAX_TENSORS
    assert 0.5 * RESIDENT_BYTES < resident_bytes <= RESIDENT_BYTES


@pytest.mark.parametrize("make", [wide_strings, short_strings])
@pytest.mark.parametrize("are_named", [False, True], ids=["beside the first", "named before the first"])
def test_the_parts_of_a_model_take_no_more_together(
    make: Callable[[int], bytes], *, are_named: bool, tmp_path: Path
) -> None:
    paths = [tmp_path / f"model-{number:05}-of-00005.gguf" for number in range(1, 6)]
    for number, path in enumerate(paths):
        keys = [*MODEL_KEYS, entry("split.no", number), entry("split.count", len(paths)), make(MAX_VALUE_BYTES // 2)]
        GgufFile(keys=keys, tensors=[], data=b"").write(path)
    resident_bytes, told = run_refused(*(paths[::-1] if are_named else paths[:1]))
    print({"resident_bytes": resident_bytes})
    assert "[limit_exceeded]" in told
    assert 0.5 * RESIDENT_BYTES < resident_bytes <= RESIDENT_BYTES


@pytest.mark.parametrize("place", ["given", "a part"])
def test_a_pipe_is_refused_and_not_waited_for(place: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"model-{number:05}-of-00002.gguf" for number in (1, 2)]
    GgufFile(keys=[*MODEL_KEYS, entry("split.no", 0), entry("split.count", 2)]).write(paths[0])
    os.mkfifo(paths[1])
    command = [*COMMAND, *(paths[1:] if place == "given" else paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("is not a regular file [unreadable]\n")


@pytest.mark.parametrize(
    ("content", "code"), [(b"", "not_gguf"), (b"not a model at all", "not_gguf"), (b"GGUF\3\0\0\0", "truncated")]
)
def test_a_wrong_file_is_told_in_one_line(content: bytes, code: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    done = subprocess.run([*COMMAND, path, "--json"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("meshnet: ")
    assert done.stderr.endswith(f"[{code}]\n")
    assert done.stderr.count("\n") == 1
