"""What a worker has loaded is what was hashed, and is proven by what the site has, or it is not served."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest

from meshnet.errors import ArtifactError, TransferError, WorkerError
from meshnet.golden.probe import GoldenProbe, GoldenRows, write_golden
from meshnet.v1 import session_pb2
from node_app.agent.worker_life import WorkerEndedError, WorkerLife
from node_app.artifacts.digest_cache import DigestCache
from node_app.artifacts.model_file import open_model
from node_app.hardware.null import NullHardware
from node_app.site.golden_rows import GoldenSource
from node_app.worker.client import LoadResult, ProbeResult
from node_app.worker.limits import AskedLimits
from node_app.worker.refusal import WORKER_LOST
from node_app.worker.restart import FINAL_LOAD_CODES, EndCause
from tests.simulators.fake_engine import FakeShard
from tests.simulators.fake_model import write_fake_model
from tests.simulators.probe import run_probe
from tests.simulators.shard_load import ShardLoad
from tests.unit.meshnet.golden.goldens import fake_golden
from tests.unit.node_app.answering_site import a_site, answer_of, at_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from meshnet.v1 import frame_pb2, worker_pb2
    from node_app.settings import LayerSpan
    from node_app.worker.supervisor import WorkerSupervisor

N_LAYERS, WIDTH = 2, 16
END_S = 5.0


@dataclass
class OneWorker:
    """A supervisor, its running worker and that one's client; `meanwhile` happens while it loads."""

    meanwhile: Callable[[], object]
    loaded: list[bytes] = field(default_factory=list)
    is_ended: bool = False
    is_lost: bool = False

    @property
    def running(self) -> Self | None:
        return None if self.is_ended else self

    @property
    def client(self) -> Self:
        return self

    async def load(self, request: worker_pb2.LoadRequest, silence_s: float) -> LoadResult:
        self.loaded.append(request.artifact_digest)
        self.meanwhile()
        return LoadResult(session_pb2.BoundaryContract(), 0, 0, 0)

    async def run_rows(self, request: worker_pb2.ProbeRequest, timeout_s: float) -> frame_pb2.Tensor:
        if self.is_lost:
            raise WorkerError(WORKER_LOST, "Worker lost", "it is gone")
        shard = FakeShard(N_LAYERS, WIDTH, 0, N_LAYERS)
        (tensor,) = run_probe(ShardLoad(shard, 0, 0, 64, 64, 1, 64, session_pb2.BoundaryContract()), request)
        return tensor

    async def probe(self, rows: int, timeout_s: float) -> ProbeResult:
        return ProbeResult(rows, b"")

    async def end(self, grace_s: float = 0.0) -> None:
        self.is_ended = True


def life_of(worker: OneWorker, path: Path, goldens: GoldenSource | None = None) -> WorkerLife:
    digests = DigestCache(path.parent)
    model = open_model(path, None)
    supervisor = cast("WorkerSupervisor", worker)
    return WorkerLife(supervisor, model, AskedLimits(1, None, 1), NullHardware(), digests, goldens=goldens)


async def test_a_file_that_stays_is_loaded(tmp_path: Path) -> None:
    path = write_fake_model(tmp_path / "model.gguf", n_layers=2, width=16, context_length=512)
    worker = OneWorker(lambda: None)
    await life_of(worker, path).load()
    assert worker.loaded == [DigestCache(tmp_path).artifact_digest([path])]
    assert not worker.is_ended


async def test_an_ended_workers_shard_is_not_served_any_more(tmp_path: Path) -> None:
    path = write_fake_model(tmp_path / "model.gguf", n_layers=2, width=16, context_length=512)
    life = life_of(OneWorker(lambda: None), path)
    await life.load()
    await life.measure()
    assert life.shard is not None
    await life.end()
    assert life.shard is None


async def test_a_file_that_was_replaced_while_it_was_loaded_is_not_served_and_tried_again(tmp_path: Path) -> None:
    path = write_fake_model(tmp_path / "model.gguf", n_layers=2, width=16, context_length=512)
    other = path.read_bytes() + b"x"
    worker = OneWorker(lambda: path.write_bytes(other))
    life = life_of(worker, path)
    with pytest.raises(WorkerEndedError) as caught:
        await life.load()
    assert (caught.value.end.cause, caught.value.end.code) == (EndCause.LOAD_FAILED, "changed")
    assert caught.value.end.code not in FINAL_LOAD_CODES
    assert worker.is_ended
    worker.meanwhile, worker.is_ended = lambda: None, False
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


async def verdicts(tmp_path: Path, *imported: GoldenProbe) -> list[str]:
    """What one node's self tests give while a site's probe is replaced by the next each time that it was sent."""
    path = write_fake_model(tmp_path / "model.gguf", n_layers=N_LAYERS, width=WIDTH, context_length=512)
    digest = DigestCache(tmp_path).artifact_digest([path])
    answers = [at_once(answer_of(write_golden(replace(golden, artifact_digest=digest)))) for golden in imported]
    found = []
    with a_site(*answers) as site:
        life = life_of(OneWorker(lambda: None), path, GoldenSource(site.url))
        await life.load()
        for _ in imported:
            try:
                result = await life.self_test()
            except ArtifactError as error:
                found.append(error.code)
            else:
                found.append("absent" if result is None else "passed" if result.is_passed else "failed")
    print(f"asked {len(site.asked)} times: {found}")
    return [*found, str(len(site.asked))]


async def test_a_probe_that_was_wrong_is_asked_for_again_and_a_right_one_is_kept(tmp_path: Path) -> None:
    right = fake_golden(N_LAYERS, WIDTH)
    assert right.logits is not None
    zeros = GoldenRows(right.logits.rows, right.logits.width, bytes(len(right.logits.data)))
    wrong, lacking = replace(right, logits=zeros), replace(right, logits=None)
    expected = ["failed", "no_golden_rows", "passed", "passed", "3"]
    assert await verdicts(tmp_path, wrong, lacking, right, wrong) == expected


@pytest.mark.parametrize("is_awaited", [False, True])
async def test_a_worker_that_is_gone_is_ended_where_its_verdict_is_awaited(tmp_path: Path, *, is_awaited: bool) -> None:
    path = write_fake_model(tmp_path / "model.gguf", n_layers=N_LAYERS, width=WIDTH, context_length=512)
    golden = replace(fake_golden(N_LAYERS, WIDTH), artifact_digest=DigestCache(tmp_path).artifact_digest([path]))
    worker = OneWorker(lambda: None, is_lost=True)
    with a_site(at_once(answer_of(write_golden(golden)))) as site:
        life = life_of(worker, path, GoldenSource(site.url))
        await life.load()
        with pytest.raises(WorkerEndedError if is_awaited else WorkerError, match="gone"):
            await life.self_test(is_awaited=is_awaited)
    assert worker.is_ended is is_awaited
