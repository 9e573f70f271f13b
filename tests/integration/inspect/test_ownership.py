"""Every stage loads the tensors that the inventory gives it, by name, with blocks that draft tokens and without.

The pinned tree's log names each tensor that it asks the file for and each that it leaves out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from meshnet.artifact.gguf import GgufHeader, read_header
from meshnet.artifact.model.inventory import EMBEDDING, Owner, owned_by, owner_of, take_inventory
from tests.simulators.tiny_models import NEXTN_MODELS, TINY_MODELS, TinyModel, tiny_model

pytestmark = pytest.mark.llama

# In a process of its own: the loader aborts where it finds what it did not expect.
LOADER = """
import ctypes, json, os, re, sys
os.environ["GGML_NO_BACKTRACE"] = "1"
import llama_cpp
lines = []
log = llama_cpp.llama_log_callback(lambda level, text, data: lines.append(text.decode(errors="replace")))
llama_cpp.llama_log_set(log, None)
llama_cpp.llama_backend_init()
load_range = llama_cpp.llama_cpp._lib.llama_model_load_range_from_file
load_range.restype = ctypes.c_void_p
load_range.argtypes = [ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32, llama_cpp.llama_model_params]
found = []
for begin, end, nextn in json.loads(sys.argv[2]):
    params = llama_cpp.llama_model_default_params()
    params.load_mtp, params.n_gpu_layers = nextn, 0
    lines.clear()
    model = load_range(sys.argv[1].encode(), begin, end, params)
    text = "".join(lines)
    asked = set(re.findall(r"loading tensor (\\S+)", text)) - set(re.findall(r"unused tensor (\\S+)", text))
    size = llama_cpp.llama_model_size(model) if model else 0
    found.append({"names": sorted(asked), "bytes": size})
    llama_cpp.llama_model_free(model)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Stage:
    layer_begin: int
    layer_end: int
    with_nextn: bool


@dataclass(frozen=True)
class Loaded:
    names: set[str]
    size_bytes: int


def load(path: Path, stages: list[Stage]) -> list[Loaded]:
    asked = json.dumps([[one.layer_begin, one.layer_end, one.with_nextn] for one in stages])
    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(path), asked], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    there = {tensor.name for tensor in read_header(path).tensors}
    return [Loaded(there.intersection(one["names"]), one["bytes"]) for one in json.loads(done.stdout.splitlines()[-1])]


def every_stage(layers: int) -> list[Stage]:
    """All ranges but the whole, which is loaded in another way, without nextn blocks and with them."""
    ranges = [(begin, end) for begin in range(layers) for end in range(begin + 1, layers + 1) if end - begin < layers]
    return [Stage(begin, end, nextn) for begin, end in ranges for nextn in (False, True)]


def names_of(header: GgufHeader, stage: Stage) -> set[str]:
    owned = owned_by(header, stage.layer_begin, stage.layer_end, with_nextn=stage.with_nextn)
    return {tensor.name for tensor in owned}


@pytest.mark.parametrize("model", [*TINY_MODELS, *NEXTN_MODELS], ids=lambda model: f"{model.architecture}-{model.seed}")
def test_each_stage_loads_what_the_inventory_gives_it(model: TinyModel, tmp_path: Path) -> None:
    path = tiny_model(model, tmp_path)
    header, stages = read_header(path), every_stage(model.layers)
    inventory = take_inventory(header)
    counts = {"stages": 0, "tensors": 0, "bytes": 0, "inspect_tensors": 0, "inspect_bytes": 0, "nextn_tensors": 0}
    for stage, loaded in zip(stages, load(path, stages), strict=True):
        told = names_of(header, stage)
        told_bytes = inventory.weight_bytes(stage.layer_begin, stage.layer_end, with_nextn=stage.with_nextn)
        counts["stages"] += 1
        counts["tensors"] += len(loaded.names)
        counts["bytes"] += loaded.size_bytes
        counts["inspect_tensors"] += len(told)
        counts["inspect_bytes"] += told_bytes
        counts["nextn_tensors"] += sum(owner_of(name, header.n_layers) is Owner.NEXTN for name in loaded.names)
        assert loaded.names == told, stage
        assert loaded.size_bytes == told_bytes, stage
    print({"model": f"{model.architecture}-{model.seed}"} | counts)
    assert counts["tensors"] > 0
    assert bool(counts["nextn_tensors"]) is bool(header.n_nextn)


def test_an_embedding_of_the_heads_is_the_tails_as_well_only_where_it_drafts_without_its_own(tmp_path: Path) -> None:
    deepseek4, qwen35 = NEXTN_MODELS
    (glm4moe,) = (model for model in TINY_MODELS if model.architecture == "glm4moe")
    found = {}
    for model in (deepseek4, qwen35, glm4moe):
        path = tiny_model(model, tmp_path)
        tails = [Stage(model.layers - 1, model.layers, with_nextn) for with_nextn in (False, True)]
        found[model.architecture] = [EMBEDDING in one.names for one in load(path, tails)]
    # qwen35's is its output head as well.
    assert found == {"deepseek4": [False, True], "qwen35": [True, True], "glm4moe": [False, True]}


def test_another_rule_would_be_seen(tmp_path: Path) -> None:
    """The control: the tail without the embedding that its nextn block takes, and the head with that block."""
    (deepseek4, _) = NEXTN_MODELS
    path = tiny_model(deepseek4, tmp_path)
    header, half = read_header(path), deepseek4.layers // 2
    head, tail = Stage(0, half, with_nextn=True), Stage(half, deepseek4.layers, with_nextn=True)
    of_head, of_tail = load(path, [head, tail])
    nextn = {tensor.name for tensor in header.tensors if owner_of(tensor.name, header.n_layers) is Owner.NEXTN}
    assert len(nextn) > 10
    assert of_tail.names == names_of(header, tail)
    assert of_tail.names != names_of(header, tail) - {EMBEDDING}
    assert of_head.names == names_of(header, head)
    assert of_head.names != names_of(header, head) | nextn
