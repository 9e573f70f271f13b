"""A state to go back to is as large as memory is counted for: the pinned tree says what one of a sequence takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from meshnet.artifact.gguf import read_header
from meshnet.artifact.model.caches import read_caches
from tests.simulators.tiny_models import TINY_MODELS, TinyModel, tiny_model

pytestmark = pytest.mark.llama

ROWS = 300  # more than any window
PARTIAL_ONLY = 1
# A state's bytes beside those of rows and states: its tag, each cell's position, each tensor's type and size.
CELL_BYTES = 12
TAG_BYTES = 2048
SAVER = """
import sys
import llama_cpp
log = llama_cpp.llama_log_callback(lambda level, text, data: None)
llama_cpp.llama_log_set(log, None)
llama_cpp.llama_backend_init()
model_params = llama_cpp.llama_model_default_params()
model_params.n_gpu_layers = 0
model = llama_cpp.llama_model_load_from_file(sys.argv[1].encode(), model_params)
params = llama_cpp.llama_context_default_params()
params.n_ctx, params.n_seq_max, params.kv_unified = 512, 1, False
params.n_batch, params.n_ubatch, params.n_threads = 512, 64, 1
params.swa_full, params.flash_attn_type = False, 1
context = llama_cpp.llama_init_from_model(model, params)
rows = int(sys.argv[2])
tokens = (llama_cpp.llama_token * rows)(*[number % 97 for number in range(rows)])
code = llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, rows))
print(code, llama_cpp.llama_state_seq_get_size_ext(context, 0, int(sys.argv[3])))
"""


def saved_bytes(path: Path, flags: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", SAVER, str(path), str(ROWS), str(flags)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    code, size_bytes = done.stdout.split()
    assert code == "0"
    return int(size_bytes)


@pytest.mark.parametrize("model", TINY_MODELS, ids=lambda model: model.architecture)
def test_a_kept_state_takes_what_is_counted(model: TinyModel, tmp_path: Path) -> None:
    path = tiny_model(model, tmp_path)
    header = read_header(path)
    counted = sum(layer.kept_state_bytes for layer in read_caches(header).layers)
    whole = saved_bytes(path, 0)
    told = saved_bytes(path, PARTIAL_ONLY)
    print({"architecture": model.architecture, "counted": counted, "told": told, "whole": whole})
    if not counted:
        assert told == whole  # nothing but what can be cut off: the worker saves none of it
        return
    window = header.metadata.get(f"{model.architecture}.attention.sliding_window", 0)
    assert isinstance(window, int)
    assert counted <= told <= counted + TAG_BYTES + CELL_BYTES * window
    assert told < whole
