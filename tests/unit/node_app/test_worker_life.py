"""What a worker has loaded is what was hashed, or it is not served."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from meshnet.v1 import session_pb2
from node_app.artifacts.digest_cache import DigestCache
from node_app.artifacts.model_file import open_model
from node_app.hardware.null import NullHardware
from node_app.worker.client import LoadedShard
from node_app.worker.limits import Wishes
from node_app.worker.restart import FINAL_CODES, EndCause
from node_app.worker_life import WorkerEndedError, WorkerLife
from tests.simulators.fake_model import write_fake_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from meshnet.v1 import worker_pb2
    from node_app.worker.supervisor import WorkerSupervisor


@dataclass
class OneWorker:
    """A supervisor, its running worker and that one's client; `meanwhile` happens while it loads."""

    meanwhile: Callable[[], object]
    loaded: list[bytes] = field(default_factory=list)
    is_ended: bool = False

    @property
    def running(self) -> Self:
        return self

    @property
    def client(self) -> Self:
        return self

    async def load(self, request: worker_pb2.LoadRequest, silence_s: float) -> LoadedShard:
        self.loaded.append(request.artifact_digest)
        self.meanwhile()
        return LoadedShard(session_pb2.BoundaryContract(), 0, 0, 0)

    async def end(self, grace_s: float = 0.0) -> None:
        self.is_ended = True


def life_of(worker: OneWorker, path: Path) -> WorkerLife:
    digests = DigestCache(path.parent)
    model = open_model(path, None)
    return WorkerLife(cast("WorkerSupervisor", worker), model, Wishes(1, None, 1), NullHardware(), digests)


async def test_a_file_that_stays_is_loaded(tmp_path: Path) -> None:
    path = write_fake_model(tmp_path / "model.gguf", n_layers=2, width=16, context_length=512)
    worker = OneWorker(lambda: None)
    await life_of(worker, path).load()
    assert worker.loaded == [DigestCache(tmp_path).artifact_digest([path])]
    assert not worker.is_ended


async def test_a_file_that_was_replaced_while_it_was_loaded_is_not_served_and_tried_again(tmp_path: Path) -> None:
    path = write_fake_model(tmp_path / "model.gguf", n_layers=2, width=16, context_length=512)
    other = path.read_bytes() + b"x"
    worker = OneWorker(lambda: path.write_bytes(other))
    life = life_of(worker, path)
    with pytest.raises(WorkerEndedError) as caught:
        await life.load()
    assert (caught.value.end.cause, caught.value.end.code) == (EndCause.LOAD_FAILED, "changed")
    assert caught.value.end.code not in FINAL_CODES
    assert worker.is_ended
    worker.meanwhile = lambda: None
    await life.load()
    assert worker.loaded[1] == DigestCache(tmp_path).artifact_digest([path]) != worker.loaded[0]
