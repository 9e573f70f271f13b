"""Leads one worker after another through its phases: start, load, self test, measure, serve.

Invariants: each step brings the worker one phase further or ends it. A `WorkerEnd` then says why, and
`worker/restart.py` decides if and when the next worker is started. Contract, status and speed of an ended worker are
dropped.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.errors import ArtifactError, MeshnetError, WorkerError
from meshnet.generation.chunking import measured_rows
from node_app.agent.loading import load_request
from node_app.agent.reporting import MeasuredShard, PeerListener
from node_app.artifacts.digest_cache import changed
from node_app.site.golden_rows import too_slow
from node_app.system.blocking import run_blocking
from node_app.system.runtime_directory import compute_turn_path
from node_app.worker.limits import AskedLimits, ShardNeed, WorkerLimits, plan_limits
from node_app.worker.measure import ShardShape, measure_shard
from node_app.worker.refusal import WORKER_LOST
from node_app.worker.restart import EndCause, WorkerEnd
from node_app.worker.self_test import SelfTestResult, ShardToProve, prove_shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.v1 import worker_pb2
    from node_app.artifacts.digest_cache import DigestCache
    from node_app.artifacts.model_file import ModelFile
    from node_app.hardware.base import Hardware
    from node_app.sessions.node_sessions import NodeSessions
    from node_app.site.golden_rows import GoldenSource
    from node_app.worker.client import LoadResult, ProbeResult, WorkerClient
    from node_app.worker.supervisor import RunningWorker, WorkerSupervisor

logger = logging.getLogger(__name__)

# Even a large model on a slow disk reports progress more often than this, so longer silence is a failure.
LOAD_SILENCE_S = 120.0


class WorkerEndedError(Exception):
    """A step failed, so the worker was ended. `end`: why, for `plan_restart`."""

    def __init__(self, end: WorkerEnd) -> None:
        super().__init__(end.message)
        self.end = end


@dataclass(frozen=True, slots=True)
class _Loaded:
    artifact_digest: bytes
    limits: WorkerLimits
    shard: LoadResult


class WorkerLife:
    """Leads the supervisor's worker through its phases. Use it only on the main thread's event loop.

    Attributes:
        status: the worker's newest status; None until there is one.
    """

    def __init__(
        self,
        supervisor: WorkerSupervisor,
        model: ModelFile,
        asked: AskedLimits,
        hardware: Hardware,
        digests: DigestCache,
        *,
        goldens: GoldenSource | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._model = model
        self._asked = asked
        self._hardware = hardware
        self._digests = digests
        self._goldens = goldens
        self._loaded: _Loaded | None = None
        self._shard: MeasuredShard | None = None
        self.status: worker_pb2.StatusReply | None = None

    @property
    def client(self) -> WorkerClient | None:
        """The client that calls the running worker; None if no worker runs."""
        running = self._supervisor.running
        return running.client if running is not None else None

    @property
    def shard(self) -> MeasuredShard | None:
        """The running worker's shard; None until it is measured, and after the worker has ended."""
        return self._shard if self._supervisor.running is not None else None

    @property
    def peers(self) -> PeerListener:
        """The address at which other workers dial the running worker; empty if none runs or it does not listen."""
        running = self._supervisor.running
        if running is None:
            return PeerListener()
        return PeerListener(running.description.link_address, running.description.link_fingerprint)

    async def start(self) -> int:
        """Start a worker and return its process id; raises WorkerEndedError if it does not become ready."""
        self._loaded, self._shard, self.status = None, None, None
        try:
            running = await self._supervisor.start()
        except WorkerError as error:
            raise WorkerEndedError(WorkerEnd(EndCause.START_FAILED, error.code, error.message)) from error
        logger.info("worker %d started", running.process.pid)
        return running.process.pid

    async def load(self) -> None:
        """Load the shard; raises WorkerEndedError if that fails or the model's files changed meanwhile."""
        try:
            digest = await run_blocking(self._hash_files, "model-digest")
            limits = self._plan_limits()
            request = load_request(self._model, self._model.layers, digest, limits, compute_turn_path())
            shard = await self._running().client.load(request, LOAD_SILENCE_S)
            # The worker must have loaded the bytes that were hashed; unchanged files are not read again for that.
            if await run_blocking(self._hash_files, "model-digest") != digest:
                raise changed()
        except MeshnetError as error:
            raise await self._ended(EndCause.LOAD_FAILED, error) from error
        self._loaded = _Loaded(digest, limits, shard)
        logger.info("layers %s loaded: %d bytes of weights", self._model.layers, shard.weights_bytes)
        if shard.nextn_bytes:
            logger.info("%d bytes of blocks that draft tokens are left in the file", shard.nextn_bytes)

    async def self_test(self, *, is_awaited: bool = False) -> SelfTestResult | None:
        """Compare the loaded shard's output rows with the site's golden probe; None if the site has no probe.

        Args:
            is_awaited: whether the worker serves nobody until the test has a result. If so, a worker that cannot be
                asked is ended, since no other step would notice that it is lost.

        Raises:
            TransferError: the site could not be asked.
            WorkerError: the worker could not be asked, and `is_awaited` is false.
            WorkerEndedError: the worker could not be asked, and `is_awaited` is true.
            ArtifactError: the site's golden probe lacks the rows at the shard's first or last layer.
        """
        try:
            return await self._prove()
        except WorkerError as error:
            if not is_awaited:
                raise
            raise await self._ended(EndCause.PROBE_FAILED, error) from error

    async def _prove(self) -> SelfTestResult | None:
        loaded, layers, goldens = self._require_loaded(), self._model.layers, self._goldens
        if goldens is None:
            return None
        try:
            async with asyncio.timeout(goldens.timeout_s):
                golden = await run_blocking(lambda: goldens.find(loaded.artifact_digest, layers), "golden-rows")
        except TimeoutError as error:
            raise too_slow() from error
        if golden is None:
            return None
        shard = ShardToProve(layers, loaded.shard.contract.exact_class.backend)
        try:
            result = await prove_shard(self._running().client, shard, golden)
        except ArtifactError:
            goldens.forget(loaded.artifact_digest, layers)
            raise
        if not result.is_passed:
            goldens.forget(loaded.artifact_digest, layers)
        return result

    async def reject(self, reason: str) -> WorkerEnd:
        """End a worker that failed its self test before it served, and return how it ended; `reason` is for people."""
        await self._supervisor.end(grace_s=0.0)
        return WorkerEnd(EndCause.SELF_TEST_FAILED, "self_test_failed", reason)

    def condemn(self, reason: str) -> None:
        """Make `serve` end the worker, because its shard failed the self test; `reason` is for people."""
        self._supervisor.condemn(EndCause.SELF_TEST_FAILED, reason)

    async def measure(self) -> None:
        """Measure the speed of the loaded shard; raises WorkerEndedError if the worker fails meanwhile."""
        try:
            loaded = self._require_loaded()
            tracker = await measure_shard(self._running().client, self._shape(loaded.limits))
        except WorkerError as error:
            raise await self._ended(EndCause.PROBE_FAILED, error) from error
        speed = tracker.speed
        self._shard = MeasuredShard(loaded.artifact_digest, loaded.shard.contract, loaded.limits, tracker)
        logger.info(
            "measured: decode %.3f ms a layer, prefill %.4f ms a layer and row, tail %.3f ms",
            speed.decode_ms_per_layer,
            speed.prefill_ms_per_layer,
            speed.tail_ms,
        )

    def _require_loaded(self) -> _Loaded:
        if self._loaded is None:
            raise WorkerError(WORKER_LOST, "Worker lost", "nothing is loaded")
        return self._loaded

    def _shape(self, limits: WorkerLimits) -> ShardShape:
        layers = self._model.layers
        chunk_rows = measured_rows(limits.ubatch_rows, limits.context_length)
        return ShardShape(layers.layer_end - layers.layer_begin, self._model.tail_share, chunk_rows)

    async def serve(self, sessions: NodeSessions, on_status: Callable[[], None]) -> WorkerEnd:
        """Carry messages between sessions and worker, and watch the worker until it ends or fails; return why it ended.

        Args:
            sessions: the node's sessions; they are also compared with each status of the worker.
            on_status: called after each status of the worker.
        """

        def take_status(status: worker_pb2.StatusReply) -> None:
            self.status = status
            sessions.reconcile(status)
            on_status()

        def take_probe(result: ProbeResult) -> None:
            if self._shard is not None:
                self._shard.tracker.observe(result.compute_us)

        carrying = asyncio.create_task(self._carry(sessions), name="bridge")
        try:
            return await self._supervisor.watch(take_status, take_probe)
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)

    async def _carry(self, sessions: NodeSessions) -> None:
        try:
            await sessions.carry(self._running().client)
        except WorkerError as error:
            self._supervisor.condemn(EndCause.BRIDGE_LOST, f"the bridge broke: {error.message}")
        else:
            self._supervisor.condemn(EndCause.BRIDGE_LOST, "the worker ended the bridge")

    async def end(self) -> None:
        """Ask the worker to end, and kill it if it does not. Idempotent."""
        await self._supervisor.end()

    async def _ended(self, cause: EndCause, error: MeshnetError) -> WorkerEndedError:
        await self._supervisor.end(grace_s=0.0)
        return WorkerEndedError(WorkerEnd(cause, error.code, error.message))

    def _running(self) -> RunningWorker:
        running = self._supervisor.running
        if running is None:
            raise WorkerError(WORKER_LOST, "Worker lost", "no worker is running")
        return running

    def _hash_files(self) -> bytes:
        return self._digests.artifact_digest(self._model.paths)

    def _plan_limits(self) -> WorkerLimits:
        model, figures = self._model, self._hardware.figures()
        need = ShardNeed(model.weights_bytes, model.caches, model.width, model.context_length)
        return plan_limits(need, self._asked, figures.cores, figures.memory_available_bytes)
