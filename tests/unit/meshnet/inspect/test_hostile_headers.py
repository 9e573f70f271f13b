"""Whatever a header says, `inspect` answers or refuses it by name, in bounded memory and time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from meshnet.artifact.gguf import header
from meshnet.artifact.gguf.limits import MAX_LAYERS
from tests.simulators.gguf_header import HeaderTensor, Value, write_header
from tests.simulators.hostile_gguf import fields_of, sound_models
from tests.unit.meshnet.inspect.hostile_run import judge

ROOT = Path(__file__).resolve().parents[4]
MUTATIONS = 4000
SLOWEST_S = 2.0


def run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.unit.meshnet.inspect.hostile_run", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(found))
    return found


def test_hostile_headers_are_refused_by_name_or_make_sense() -> None:
    found = run("--count", str(MUTATIONS), "--seed", "4")
    assert found["untyped"] == 0
    assert found["mutations"] == found["typed_errors"] + found["accepted"] == MUTATIONS
    assert found["typed_errors"] > MUTATIONS / 4
    assert found["accepted"] > MUTATIONS / 50
    assert len(found["kinds"]) >= 12
    assert all(count >= 20 for count in found["kinds"].values())
    assert {
        "not_gguf", "unsupported_version", "truncated", "limit_exceeded", "bad_metadata", "bad_tensor",
        "unsupported_tensor_type", "not_first_part",
    } <= set(found["verdicts"])  # fmt: skip
    assert found["slowest_s"] < SLOWEST_S


def test_without_the_checks_something_goes_wrong() -> None:
    """The control: the same files, read by a reader that believes them."""
    found = run("--count", "600", "--seed", "4", "--unchecked")
    assert found["untyped"] > 0


def test_a_name_in_a_message_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: were any name taken, what a message says of it would be noticed."""
    path = write_header(tmp_path / "model.gguf", {"general.architecture": "\x1b[2J"}, [])
    assert judge(path, []) == "bad_metadata"
    monkeypatch.setattr(header, "_ARCHITECTURE_NAME", re.compile(r"(?s).*"))
    assert judge(path, []) == "!message"


@pytest.mark.parametrize("name", sound_models())
def test_the_sound_files_are_sound(name: str, tmp_path: Path) -> None:
    path = write_header(tmp_path / "model.gguf", *sound_models()[name])
    assert judge(path, []) == "accepted"
    assert len(fields_of(path.read_bytes())) > 60


def test_many_layers_and_tensors_take_no_longer_than_they_must(tmp_path: Path) -> None:
    """What is asked for each tensor or for each range of layers must not look at all of them again."""
    figures: dict[str, Value] = {"general.architecture": "deepseek4"}
    for key, value in {"block_count": MAX_LAYERS, "context_length": 8192, "embedding_length": 32}.items():
        figures[f"deepseek4.{key}"] = value
    figures |= {"deepseek4.attention.key_length": 32, "deepseek4.attention.sliding_window": 128}
    figures |= {"deepseek4.nextn_predict_layers": 1}
    names = [f"blk.{number % MAX_LAYERS}.{number}.exp_probs_b_vl.bias" for number in range(2 * MAX_LAYERS)]
    path = write_header(tmp_path / "model.gguf", figures, [HeaderTensor(name, (2048,), "f32") for name in names])
    begun_s = time.process_time()
    assert judge(path, ["--memory", ",".join(["102M"] * 7 + ["103M"])]) in {"accepted", "model_too_large"}
    took_s = time.process_time() - begun_s
    print({"took_s": round(took_s, 2), "tensors": len(names)})
    assert took_s < SLOWEST_S
