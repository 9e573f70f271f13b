"""A golden probe is made of layers that are loaded as nodes load them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from meshnet.artifact.gguf import artifact_digest
from meshnet.errors import WorkerError
from node_app.agent.worker_life import WorkerEndedError, WorkerLife
from node_app.artifacts.digest_cache import DigestCache
from node_app.artifacts.model_file import open_model
from node_app.golden_maker.walk import Walk, make_golden
from node_app.hardware.null import NullHardware
from node_app.settings import LayerSpan
from node_app.worker.limits import AskedLimits
from tests.simulators.fake_model import write_fake_model

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from meshnet.v1 import frame_pb2, worker_pb2
    from node_app.worker.client import LoadResult
    from node_app.worker.supervisor import WorkerSupervisor

# How much of the machine is used, which nodes choose for themselves.
OWN_CHOICE = ("kv_cells", "max_sessions", "threads", "turn_path")


class RefusingWorker:
    """A supervisor, its worker and that one's client: notes what it should load, and does not."""

    def __init__(self) -> None:
        self.asked: list[worker_pb2.LoadRequest] = []

    @property
    def running(self) -> Self:
        return self

    @property
    def client(self) -> Self:
        return self

    async def load(self, request: worker_pb2.LoadRequest, silence_timeout_s: float) -> LoadResult:
        self.asked.append(request)
        raise WorkerError("refused", "Refused", "it loads nothing")

    async def unload(self) -> None:
        raise NotImplementedError

    async def run_rows(self, request: worker_pb2.ProbeRequest, timeout_s: float) -> frame_pb2.Tensor:
        raise NotImplementedError

    async def end(self, grace_s: float = 0.0) -> None:
        """Nothing is running."""


def fields_of(request: worker_pb2.LoadRequest) -> dict[str, object]:
    return {field.name: value for field, value in request.ListFields() if field.name not in OWN_CHOICE}


@pytest.mark.parametrize("context_length", [512, 32768])
@pytest.mark.parametrize("layers", [LayerSpan(0, 1), LayerSpan(1, 2)], ids=str)
async def test_a_probe_is_made_of_what_nodes_load(tmp_path: Path, layers: LayerSpan, context_length: int) -> None:
    path = write_fake_model(tmp_path / "model.gguf", n_layers=2, width=16, context_length=context_length)
    worker = RefusingWorker()
    supervisor, model = cast("WorkerSupervisor", worker), open_model(path, layers)
    life = WorkerLife(supervisor, model, AskedLimits(1, None, 1), NullHardware(), DigestCache(tmp_path))
    with pytest.raises(WorkerEndedError):
        await life.load()
    walk = Walk(open_model(path, None), artifact_digest([path]), (1,), 1, "", lambda _: None)
    with pytest.raises(WorkerError, match="refused"):
        await make_golden(worker, walk)
    loaded, walked = (fields_of(request) for request in worker.asked)
    print(f"compared: {sorted(loaded)}")
    assert len(loaded) >= 6
    assert loaded == walked | {"layers": loaded["layers"]}
