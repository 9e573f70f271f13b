"""A worker program with a client, and golden probes made by it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

from meshnet.artifact.gguf import artifact_digest, read_header
from meshnet.artifact.model.cuts import legal_cuts
from meshnet.golden.comparing import RowErrors
from meshnet.golden.probe import GoldenProbe
from meshnet.v1 import session_pb2, worker_pb2
from node_app.artifacts.model_file import open_model
from node_app.golden_maker.walk import Walk, make_golden
from node_app.settings import LayerSpan
from node_app.worker.client import WorkerClient
from node_app.worker.self_test import SelfTestResult, ShardToProve, compare_shard, prove_shard
from tests.simulators.worker_process import running_program

LOAD_TIMEOUT_S = 60.0


@contextlib.asynccontextmanager
async def a_worker(program: Path, folder: Path) -> AsyncIterator[WorkerClient]:
    async with running_program(program, folder / "worker.sock", "--parent-pid", str(os.getpid())) as running:
        client = WorkerClient(running.socket_path)
        try:
            yield client
        finally:
            await client.close()


async def golden_by(client: WorkerClient, model: Path) -> GoldenProbe:
    """As `meshnet probe` makes it."""
    file = open_model(model, None)
    cuts = legal_cuts(read_header(model)).cuts
    walk = Walk(file, artifact_digest(file.paths), cuts, 1, "", lambda layers: None)
    return (await make_golden(client, walk)).golden


def ranges_of(golden: GoldenProbe) -> list[LayerSpan]:
    """Every smallest range, both halves and the whole."""
    ends = [0, *golden.cuts, golden.n_layers]
    middle = ends[len(ends) // 2]
    pairs = [*pairwise(ends), (0, middle), (middle, golden.n_layers), (0, golden.n_layers)]
    return [LayerSpan(*pair) for pair in dict.fromkeys(pairs)]


@contextlib.asynccontextmanager
async def loaded_range(
    client: WorkerClient, model: Path, layers: LayerSpan, artifact_digest: bytes
) -> AsyncIterator[str]:
    """Load a range for the body's time; gives the backend that computes it."""
    request = worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_LLAMA,
        gguf_path=str(model),
        layers=session_pb2.LayerRange(layer_begin=layers.layer_begin, layer_end=layers.layer_end),
        context_length=256,
        max_sessions=2,
        threads=2,
        flash_attention=True,
        artifact_digest=artifact_digest,
    )
    shard = await client.load(request, LOAD_TIMEOUT_S)
    try:
        yield shard.contract.exact_class.backend
    finally:
        await client.unload()


def kind_of(layers: LayerSpan, n_layers: int) -> str:
    """What ranges are told apart by in the figures."""
    count = layers.layer_end - layers.layer_begin
    return "whole" if count == n_layers else f"{count} layer(s)"


async def verdict_on(
    client: WorkerClient, model: Path, loaded: LayerSpan, golden: GoldenProbe, tested_as: LayerSpan | None = None
) -> SelfTestResult:
    """Load a range, test it (as if it were another one), unload it."""
    async with loaded_range(client, model, loaded, golden.artifact_digest) as backend:
        return await prove_shard(client, ShardToProve(tested_as or loaded, backend), golden)


async def verdicts_on(
    client: WorkerClient, model: Path, golden: GoldenProbe
) -> tuple[list[SelfTestResult], dict[str, RowErrors]]:
    """Test every range, and say how far rows are from golden ones by kind of range, both ways together."""
    verdicts = []
    found: dict[str, RowErrors] = {}
    for layers in ranges_of(golden):
        async with loaded_range(client, model, layers, golden.artifact_digest) as backend:
            verdicts.append(await prove_shard(client, ShardToProve(layers, backend), golden))
            both = [await compare_shard(client, layers, golden, step_rows) for step_rows in (0, 1)]
        kind = kind_of(layers, golden.n_layers)
        found[kind] = sum(both, found.get(kind, RowErrors()))
    return verdicts, found


async def errors_of(
    client: WorkerClient, model: Path, layers: LayerSpan, golden: GoldenProbe
) -> tuple[str, RowErrors, RowErrors]:
    """The backend of a range, and how far its rows are from golden ones: at once, and one by one."""
    async with loaded_range(client, model, layers, golden.artifact_digest) as backend:
        at_once = await compare_shard(client, layers, golden, step_rows=0)
        return backend, at_once, await compare_shard(client, layers, golden, step_rows=1)
