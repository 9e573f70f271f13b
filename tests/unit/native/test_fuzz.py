"""The fuzzer's runner: seeds in the fuzzers' layout, figures from their output, and no work without a compiler."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import fuzz
from system_packages import MissingPrerequisiteError

VECTORS = fuzz.ROOT / "tests/vectors"


def records_of(data: bytes) -> list[tuple[int, bytes]]:
    """Read an input as native/fuzz/wire_records.h does."""
    found = []
    while data:
        length = int.from_bytes(data[1:3], "little")
        found.append((data[0], data[3 : 3 + length]))
        data = data[3 + length :]
    return found


def test_every_vector_is_a_seed_for_both_stages_from_both_carriers() -> None:
    inputs = fuzz.seeds(VECTORS)
    names = [
        f"{group}-{vector['name']}"
        for file in ("frames.json", "edge_messages.json")
        for group, vectors in json.loads((VECTORS / file).read_text()).items()
        for vector in vectors
        if len(vector["hex"]) // 2 <= fuzz.RECORD_MAX_BYTES
    ]
    assert len(names) > 80
    assert len(inputs) == 4 * len(names) + 8 + 1
    kinds = {kind for data in inputs.values() for kind, _message in records_of(data)}
    assert kinds == set(range(8))


def test_the_rows_hold_the_good_messages_in_the_vectors_order() -> None:
    good = [bytes.fromhex(one["hex"]) for one in json.loads((VECTORS / "frames.json").read_text())["good"]]
    fitting = [message for message in good if len(message) <= fuzz.RECORD_MAX_BYTES]
    assert records_of(fuzz.seeds(VECTORS)["row-0"]) == [(0, message) for message in fitting]


@pytest.mark.parametrize(
    ("output", "executions"),
    [
        ("#12 DONE\nstat::number_of_executed_units: 8123\nstat::average_exec_per_sec: 41\n", 8123),
        ("==12==ERROR: AddressSanitizer\n", 0),
        ("", 0),
    ],
)
def test_executions_are_what_the_fuzzer_counted(output: str, executions: int) -> None:
    assert fuzz.executions_in(output) == executions


def test_without_clang_and_root_one_line_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["fuzz.py"])
    with pytest.raises(MissingPrerequisiteError):
        fuzz.provide_clang()
    assert fuzz.main() == fuzz.EXIT_PREREQUISITE
    assert capsys.readouterr().err == "fuzz: install these first, which needs root: clang libclang-rt-dev\n"


def test_a_fuzzer_that_does_not_end_is_one_line_and_a_failure(monkeypatch, capsys) -> None:
    def hang(_seconds: int) -> int:
        raise subprocess.TimeoutExpired(["/build/native/fuzz/bin/wire_fuzzer", "-runs=0"], 180)

    monkeypatch.setattr(fuzz.sys, "argv", ["fuzz.py"])
    monkeypatch.setattr(fuzz, "provide_clang", lambda: None)
    monkeypatch.setattr(fuzz, "build", lambda *_arguments: 0)
    monkeypatch.setattr(fuzz, "fuzz", hang)
    assert fuzz.main() == 1
    assert capsys.readouterr().err == "fuzz: wire_fuzzer did not end within 180 s\n"
