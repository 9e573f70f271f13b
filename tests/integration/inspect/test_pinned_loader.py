"""What is read of a header is what the pinned llama.cpp makes of it.

It is asked to load without allocating (`no_alloc`): every tensor's name and shape is checked, and what caches would
take is told in its log.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meshnet.artifact.gguf import read_header
from meshnet.artifact.model.caches import read_caches
from meshnet.artifact.model.memory import Load, cache_bytes, compute_bytes
from tests.simulators.deepseek_v4_flash import gguf_tensors, metadata, write_deepseek_v4_flash
from tests.simulators.gguf_header import HeaderTensor, write_header

pytestmark = pytest.mark.llama

# In a process of its own: the loader aborts where it finds what it did not expect.
LOADER = """
import json, os, sys
os.environ["GGML_NO_BACKTRACE"] = "1"
import llama_cpp
lines = []
log = llama_cpp.llama_log_callback(lambda level, text, data: lines.append(text.decode(errors="replace")))
llama_cpp.llama_log_set(log, None)
llama_cpp.llama_backend_init()
model_params = llama_cpp.llama_model_default_params()
model_params.no_alloc, model_params.load_mode, model_params.n_gpu_layers = True, 0, 0
model_params.load_mtp = sys.argv[4] == "nextn"
model = llama_cpp.llama_model_load_from_file(sys.argv[1].encode(), model_params)
found = {"loaded": bool(model)}
if model:
    context_length, sequences = int(sys.argv[2]), int(sys.argv[3])
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_seq_max, params.kv_unified = context_length * sequences, sequences, False
    params.n_ubatch = params.n_batch = 512
    params.swa_full = False
    params.flash_attn_type = 1
    found["layers"] = llama_cpp.llama_model_n_layer(model)
    found["size_bytes"] = llama_cpp.llama_model_size(model)
    found["context"] = bool(llama_cpp.llama_init_from_model(model, params))
found["log"] = "".join(lines)
print(json.dumps(found))
"""
CACHE = re.compile(
    r"(?:llama_kv_cache|llama_memory_recurrent): size = +([\d.]+) MiB|rs_seq = 0, layers = \d+, size = +([\d.]+) MiB"
)
COMPUTE = re.compile(r"compute buffer size = +([\d.]+) MiB")
MIB = 1 << 20


def load(path: Path, context_length: int = 4096, sequences: int = 1, *, nextn: bool = False) -> dict[str, Any]:
    arguments = [str(path), str(context_length), str(sequences), "nextn" if nextn else "trunk"]
    done = subprocess.run(
        [sys.executable, "-c", LOADER, *arguments], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cache_mib(log: str) -> float:
    return sum(float(one or other) for one, other in CACHE.findall(log))


@pytest.mark.parametrize("nextn", [False, True])
def test_it_takes_every_tensor_of_the_target(*, nextn: bool, tmp_path: Path) -> None:
    path = write_deepseek_v4_flash(tmp_path / "v4.gguf", nextn=nextn)
    found = load(path, nextn=nextn)
    header = read_header(path)
    assert found["loaded"], found["log"][-2000:]
    assert found["layers"] == header.n_layers == 43
    assert found["size_bytes"] == sum(tensor.size_bytes for tensor in header.tensors)


@pytest.mark.parametrize("fault", ["width", "name", "missing", "surplus"])
def test_it_would_not_take_another_inventory(fault: str, tmp_path: Path) -> None:
    tensors = gguf_tensors()
    at = next(number for number, tensor in enumerate(tensors) if tensor.name == "blk.5.attn_q_a.weight")
    tensor = tensors[at]
    match fault:
        case "width":
            tensors[at] = HeaderTensor(tensor.name, (tensor.shape[0], tensor.shape[1] + 32), tensor.type)
        case "name":
            tensors[at] = HeaderTensor("blk.5.attn_qa.weight", tensor.shape, tensor.type)
        case "missing":
            del tensors[at]
        case "surplus":
            tensors.append(HeaderTensor("blk.5.attn_extra.weight", (32,), "f32"))
    assert not load(write_header(tmp_path / "v4.gguf", metadata(), tensors))["loaded"]


@pytest.mark.parametrize(("context_length", "sequences"), [(1000, 3), (8192, 1), (131_072, 4)])
def test_caches_are_as_large_as_it_makes_them(context_length: int, sequences: int, tmp_path: Path) -> None:
    path = write_deepseek_v4_flash(tmp_path / "v4.gguf")
    found = load(path, context_length, sequences)
    assert found["context"]
    header = read_header(path)
    told_mib = cache_mib(found["log"])
    read_mib = cache_bytes(read_caches(header).layers, Load(context_length, sequences)) / MIB
    (buffers,) = map(float, COMPUTE.findall(found["log"]))
    estimate_mib = compute_bytes(header.embedding_length, Load(context_length, sequences)) / MIB
    print({"told_mib": told_mib, "read_mib": round(read_mib, 2), "buffers_mib": buffers, "estimate_mib": estimate_mib})
    # Each of the seven figures of its log is rounded to a hundredth.
    assert told_mib > 0
    assert abs(told_mib - read_mib) <= 7 * 0.005
    assert buffers <= estimate_mib
