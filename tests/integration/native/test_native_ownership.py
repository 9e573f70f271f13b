"""What a worker says of the shard that it loaded is what `inspect` says of the file: bytes, and who needs token ids."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from meshnet.artifact.gguf import read_header
from meshnet.artifact.model.inventory import take_inventory
from meshnet.artifact.model.seam import read_seam
from meshnet.v1 import session_pb2, worker_pb2, worker_pb2_grpc
from tests.integration.native.native_routes import WORKER
from tests.simulators.tiny_models import NEXTN_MODELS, TINY_MODELS, TinyModel, tiny_model
from tests.simulators.tiny_models.deepseek4 import HASH_LAYERS, IMAGE_LAYER
from tests.simulators.worker_process import running_program

pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]

LOAD_TIMEOUT_S = 60.0
WITH_NEXTN = [*NEXTN_MODELS, *(model for model in TINY_MODELS if model.architecture in {"glm4moe", "deepseek4"})]


def request(path: Path, layer_begin: int, layer_end: int) -> worker_pb2.LoadRequest:
    return worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_LLAMA,
        gguf_path=str(path),
        layers=session_pb2.LayerRange(layer_begin=layer_begin, layer_end=layer_end),
        context_length=256,
        max_sessions=1,
        threads=1,
        flash_attention=True,
        artifact_digest=b"a" * 32,
    )


@contextlib.asynccontextmanager
async def worker(folder: Path) -> AsyncIterator[worker_pb2_grpc.WorkerStub]:
    """A worker's stub."""
    async with (
        running_program(WORKER, folder / "w.sock") as program,
        grpc.aio.insecure_channel(f"unix:{program.socket_path}") as channel,
    ):
        yield worker_pb2_grpc.WorkerStub(channel)


@pytest.mark.parametrize("model", WITH_NEXTN, ids=lambda model: f"{model.architecture}-{model.seed}")
async def test_every_stage_says_what_inspect_says(model: TinyModel, tmp_path: Path) -> None:
    path = tiny_model(model, tmp_path)
    header = read_header(path)
    inventory, seam = take_inventory(header), read_seam(header)
    ranges = [(0, model.layers)]
    for cut in range(1, model.layers):
        ranges += [(0, cut), (cut, model.layers)]
    compared = nextn_bytes = 0
    async with worker(tmp_path) as stub:
        for begin, end in ranges:
            loaded = [one async for one in stub.Load(request(path, begin, end), timeout=LOAD_TIMEOUT_S)][-1]
            await stub.Unload(worker_pb2.UnloadRequest(), timeout=LOAD_TIMEOUT_S)
            compared += loaded.weights_bytes
            nextn_bytes += loaded.nextn_bytes
            assert loaded.weights_bytes == inventory.weight_bytes(begin, end), (begin, end)
            assert loaded.nextn_bytes == (inventory.nextn.size_bytes if end == model.layers else 0)
            assert loaded.contract.needs_token_ids is (begin == 0 or begin < seam.token_id_layers), (begin, end)
            assert loaded.contract.gives_token_ids is (end < seam.token_id_layers), (begin, end)
    print({"model": f"{model.architecture}-{model.seed}", "bytes": compared, "nextn_bytes": nextn_bytes})
    assert compared > 0
    assert bool(nextn_bytes) is bool(header.n_nextn)


def test_ids_travel_further_than_hashed_layers_where_experts_depend_on_there_being_one(tmp_path: Path) -> None:
    (plain,) = (model for model in TINY_MODELS if model.architecture == "deepseek4")
    with_image_layer = NEXTN_MODELS[0]
    found = [read_seam(read_header(tiny_model(model, tmp_path))).token_id_layers for model in (plain, with_image_layer)]
    assert found == [HASH_LAYERS, IMAGE_LAYER + 1]
