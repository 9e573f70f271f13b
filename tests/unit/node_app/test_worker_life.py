"""What a worker has loaded is what was hashed, and is proven by what the site has, or it is not served."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from meshnet.errors import TransferError
from meshnet.v1 import session_pb2
from node_app.artifacts.digest_cache import DigestCache
from node_app.artifacts.model_file import open_model
from node_app.golden_rows import GoldenSource
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

    from meshnet.golden.probe import GoldenProbe
    from meshnet.v1 import worker_pb2
    from node_app.settings import LayerSpan
    from node_app.worker.supervisor import WorkerSupervisor

END_S = 5.0


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


def life_of(worker: OneWorker, path: Path, goldens: GoldenSource | None = None) -> WorkerLife:
    digests = DigestCache(path.parent)
    model = open_model(path, None)
    supervisor = cast("WorkerSupervisor", worker)
    return WorkerLife(supervisor, model, Wishes(1, None, 1), NullHardware(), digests, goldens=goldens)


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


class SilentSource(GoldenSource):
    """A site whose answer never comes."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9", timeout_s=0.05)
        self.has_ended = threading.Event()

    def find(self, artifact_digest: bytes, layers: LayerSpan) -> GoldenProbe | None:
        self.has_ended.wait(END_S)
        return None


async def test_a_site_that_never_answers_is_waited_for_no_longer_than_its_time(tmp_path: Path) -> None:
    path = write_fake_model(tmp_path / "model.gguf", n_layers=2, width=16, context_length=512)
    goldens = SilentSource()
    life = life_of(OneWorker(lambda: None), path, goldens)
    await life.load()
    try:
        with pytest.raises(TransferError, match="in time"):
            await life.self_test()
    finally:
        goldens.has_ended.set()
