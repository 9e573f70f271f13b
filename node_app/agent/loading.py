"""Builds the request by which a worker loads a shard.

Invariant: `meshnet probe` and a node that serves load a model in the same way; only layers and limits differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.v1 import session_pb2, worker_pb2

if TYPE_CHECKING:
    from pathlib import Path

    from node_app.artifacts.model_file import ModelFile
    from node_app.settings import LayerSpan
    from node_app.worker.limits import WorkerLimits


def load_request(
    model: ModelFile, layers: LayerSpan, artifact_digest: bytes, limits: WorkerLimits, turn_path: Path | str
) -> worker_pb2.LoadRequest:
    """Return the request to load layers of a model.

    Args:
        model: the checked model file; if it is a test model, the worker loads it with its FakeEngine.
        layers: the layers to load.
        artifact_digest: SHA-256 over the digests of the model's files.
        limits: the threads, KV cells and sessions that the worker may use.
        turn_path: path of the compute turn's lock file.
    """
    request = worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_FAKE if model.is_fake else worker_pb2.ENGINE_KIND_LLAMA,
        gguf_path=str(model.paths[0].resolve()),
        layers=session_pb2.LayerRange(layer_begin=layers.layer_begin, layer_end=layers.layer_end),
        context_length=limits.context_length,
        kv_cells=limits.kv_cells,
        max_sessions=limits.max_sessions,
        threads=limits.threads,
        ubatch=limits.ubatch_rows,
        flash_attention=True,  # as upstream chooses on every backend we load; part of the exact class
        artifact_digest=artifact_digest,
        turn_path=str(turn_path),
    )
    if model.is_fake:
        request.fake.CopyFrom(worker_pb2.FakeModel(n_layers=model.n_layers, width=model.width))
    return request
