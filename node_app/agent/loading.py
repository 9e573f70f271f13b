"""Builds the request by which a worker loads a shard.

Invariant: a model is loaded the same way to make golden rows and to serve, except for the layers and the limits.
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
        model: checked; the FakeEngine loads it if it is a fake one.
        layers: to load.
        artifact_digest: of the model's files.
        limits: threads and memory that the worker may use.
        turn_path: of the machine's compute turn.
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
