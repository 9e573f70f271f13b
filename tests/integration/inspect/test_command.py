"""`meshnet inspect --json` as a program: what it takes on the first large target, and one line for a wrong file."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from meshnet.artifact.gguf.limits import MAX_ARRAY_ELEMENTS, MAX_HEADER_BYTES, MAX_STRING_BYTES
from tests.simulators.deepseek_v4_flash import write_deepseek_v4_flash
from tests.unit.meshnet.artifact.gguf_bytes import ARRAY, MODEL_KEYS, STRING, GgufFile, string

# Beside the interpreter that runs the tests; `make bootstrap` puts it there.
COMMAND = [str(Path(sys.executable).parent / "meshnet"), "inspect"]
WALL_S = 2.0
RESIDENT_BYTES = 300 * 1000 * 1000
ROUNDS = 3


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
    command = [sys.executable, "-c", MEASURED, "inspect", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, time.monotonic() - begun_s, int(done.stderr) * 1024


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


def many_values() -> bytes:
    """As many strings as are read, as long as the header may be."""
    count = MAX_ARRAY_ELEMENTS
    length = MAX_HEADER_BYTES // count - 9
    values = b"".join(string(str(number).zfill(length)) for number in range(count))
    return string("tokenizer.ggml.tokens") + struct.pack("<IIQ", ARRAY, STRING, count) + values


def wide_values() -> bytes:
    """Strings of which one character makes Python keep four bytes for each."""
    text = "\N{GRINNING FACE}" + "a" * (MAX_STRING_BYTES - 4)
    return b"".join(string(f"k{number}") + struct.pack("<I", STRING) + string(text) for number in range(15))


@pytest.mark.parametrize(("keys", "count"), [(many_values, 1), (wide_values, 15)], ids=["many values", "wide values"])
def test_the_largest_headers_that_are_read_take_no_more(keys: Callable[[], bytes], count: int, tmp_path: Path) -> None:
    path = GgufFile(keys=[*MODEL_KEYS, keys()], n_keys=len(MODEL_KEYS) + count).write(tmp_path / "model.gguf")
    printed, wall_s, resident_bytes = run_measured(path, "--json", "--context", "8")
    found = json.loads(printed)
    print({"header_bytes": found["metadata_bytes"], "wall_s": round(wall_s, 2), "resident_bytes": resident_bytes})
    assert found["metadata_bytes"] > 0.85 * MAX_HEADER_BYTES
    assert resident_bytes <= RESIDENT_BYTES


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
