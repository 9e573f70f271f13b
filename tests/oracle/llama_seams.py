"""The rows that a native worker's LlamaEngine gives at every seam of a model, through `Probe`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meshnet.v1 import session_pb2, worker_pb2, worker_pb2_grpc
from tests.simulators.bridged_route import BridgedWorker
from tests.simulators.worker_process import running_program

LOAD_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 60.0

Rows = NDArray[np.float32]


async def llama_seams(
    worker: Path, model: Path, layers: int, prompts: Sequence[Sequence[int]], folder: Path
) -> list[list[Rows]]:
    """For each prompt the hidden rows after 1, 2, ... layers, and the logits of every row last.

    Each seam is the end of a shard that begins at the first layer. `folder` holds the worker's socket.

    Raises:
        TimeoutError, grpc.aio.AioRpcError: the worker did not do what it should.
    """
    seams: list[list[Rows]] = [[] for _ in prompts]
    options = ("--parent-pid", str(os.getpid()))
    async with running_program(worker, folder / "llama.sock", *options) as program:
        connection = BridgedWorker(program.socket_path)
        try:
            for layer_end in range(1, layers + 1):
                await _load(connection.stub, model, layer_end)
                for prompt, rows in zip(prompts, seams, strict=True):
                    rows.append(await _probe(connection.stub, prompt))
                await connection.stub.Unload(worker_pb2.UnloadRequest(), timeout=LOAD_TIMEOUT_S)
        finally:
            await connection.close()
    return seams


async def _load(stub: worker_pb2_grpc.WorkerStub, model: Path, layer_end: int) -> None:
    request = worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_LLAMA,
        gguf_path=str(model),
        layers=session_pb2.LayerRange(layer_begin=0, layer_end=layer_end),
        context_length=512,
        # More than run at once: a sequence whose probe has ended is given back a moment later.
        max_sessions=8,
        threads=1,
        flash_attention=True,
        artifact_digest=b"a" * 32,
    )
    async for _progress in stub.Load(request, timeout=LOAD_TIMEOUT_S):
        pass


async def _probe(stub: worker_pb2_grpc.WorkerStub, prompt: Sequence[int]) -> Rows:
    request = worker_pb2.ProbeRequest(token_ids=prompt, want_outputs=True)
    reply = await stub.Probe(request, timeout=PROBE_TIMEOUT_S)
    output = reply.outputs[0]
    return np.frombuffer(output.data, "<f4").reshape(output.shape[0], output.shape[1])
