"""The agent itself: runs the steps that `plan.py` calls for and turns their results into events.

Invariants: `plan.py` alone decides which steps run. No step runs twice at the same time, and its success or failure
becomes an event. An unforeseen error ends the agent with a reason instead of leaving it half alive. Everything runs on
one event loop. `run` owns all tasks, the worker and the connections to site and relay, and releases them at its end.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.backoff import Backoff
from meshnet.errors import MeshnetError
from meshnet.failure_codes import FailureCode
from node_app.agent.events import (
    DataChanged,
    Event,
    FatalFailure,
    PauseAsked,
    QuitAsked,
    SelfTest,
    SelfTested,
    SelfTestPutOff,
    SessionsChanged,
    ShardLoaded,
    ShardMeasured,
    WorkerDown,
    WorkerGivenUp,
    WorkerStarted,
)
from node_app.agent.plan import PlanStep, is_offered, plan_steps
from node_app.agent.site_side import SiteContext, SiteSide
from node_app.agent.state import AgentState, WorkerPhase, apply
from node_app.agent.worker_life import WorkerEndedError, WorkerLife
from node_app.sessions.node_sessions import NodeSessions
from node_app.worker.refusal import WORKER_CHANGED, WORKER_LOST, StageRefusedError
from node_app.worker.restart import GiveUp, WorkerEnd, explain, plan_restart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from meshnet.keys import SigningKey
    from meshnet.v1 import control_pb2
    from node_app.settings import NodeSettings
    from node_app.site.identity import IdentityStore
    from node_app.worker.client import WorkerClient

logger = logging.getLogger(__name__)

END_TIMEOUT_S: Final = 10.0
SELF_TEST_RETRY: Final = Backoff(first_s=1.0, longest_s=60.0)
NOT_TESTED: Final = "not self-tested: the site has no golden probe of this model"


@dataclass(frozen=True, slots=True)
class AgentParts:
    """The parts from which `main` builds an agent.

    Attributes:
        identity: keeps the install key and the node's id at each site.
        worker: starts, loads and watches the workers.
        jitter: returns a random number, uniform in [0, 1), by which waits are varied.
        on_change: called after every change of the agent's state.
    """

    settings: NodeSettings
    identity: IdentityStore
    worker: WorkerLife
    jitter: Callable[[], float]
    on_change: Callable[[Agent], None]


class Agent:
    """Runs a node: its worker, its sessions and its connections. Create and run it on the main thread's event loop."""

    def __init__(self, parts: AgentParts) -> None:
        self.settings = parts.settings
        self._jitter = parts.jitter
        self._on_change = parts.on_change
        self.worker = parts.worker
        key = parts.identity.signing_key()
        site_url = parts.settings.site_url
        self.state = AgentState(has_site=bool(site_url), node_id=parts.identity.node_id(site_url) if site_url else "")
        self.sessions = NodeSessions(key, self, parts.jitter)
        self._site = self._make_site_side(parts, key) if site_url else None
        self._running: dict[PlanStep, asyncio.Task[None]] = {}
        self._has_changed = asyncio.Event()
        self._executors: dict[PlanStep, Callable[[], Awaitable[None]]] = {
            PlanStep.START_WORKER: self._start_worker,
            PlanStep.LOAD_SHARD: self._load_shard,
            PlanStep.TEST_SHARD: self._test_shard,
            PlanStep.MEASURE_SHARD: self._measure_shard,
            PlanStep.SERVE: self._serve,
            PlanStep.HOLD_DATA: self._hold_data,
        }
        if self._site is not None:
            self._executors |= {
                PlanStep.ENROL: self._site.enrol,
                PlanStep.HOLD_CONTROL: self._site.hold_control,
                PlanStep.REPORT: self._site.report,
            }

    def _make_site_side(self, parts: AgentParts, key: SigningKey) -> SiteSide:
        return SiteSide(
            SiteContext(
                settings=parts.settings,
                identity=parts.identity,
                key=key,
                worker=parts.worker,
                stages=self.sessions.stages,
                state=lambda: self.state,
                emit=self._emit,
                on_relay_news=self.sessions.data.retry_now,
                latency_ms=lambda: self.sessions.data.latency_ms,
                jitter=parts.jitter,
            )
        )

    # For the volunteer

    def pause(self, *, is_paused: bool) -> None:
        """Refuse new sessions of the site, or accept them again. Open sessions and the local API are not affected."""
        self._emit(PauseAsked(is_paused))

    def quit(self) -> None:
        """Ask `run` to release everything and return; does not wait for that."""
        self._emit(QuitAsked())

    # The loop

    async def run(self) -> str:
        """Run until `quit` is called or a failure is fatal; return the failure's reason, empty if there was none."""
        try:
            while True:
                self._has_changed.clear()
                wanted = plan_steps(self.state)
                self._bring_about(wanted)
                if not wanted and not self._running:
                    return self.state.fatal
                await self._has_changed.wait()
        finally:
            await self._end()

    def _bring_about(self, wanted: frozenset[PlanStep]) -> None:
        """Start the steps in `wanted` that do not run yet, and cancel the running steps that are not in `wanted`."""
        for step, task in self._running.items():
            if step not in wanted:
                task.cancel()
        for step in wanted - self._running.keys():
            task = asyncio.create_task(self._execute(step), name=step.name)
            self._running[step] = task

    async def _execute(self, step: PlanStep) -> None:
        try:
            await self._executors[step]()
        except Exception as error:
            logger.exception("step %s failed", step.name)
            self._emit(FatalFailure(f"internal error in {step.name}: {type(error).__name__}"))
        finally:
            del self._running[step]
            self._has_changed.set()

    def _emit(self, event: Event) -> None:
        before, self.state = self.state, apply(event, self.state)
        if self.state != before:
            self._has_changed.set()
            self._on_change(self)

    async def _end(self) -> None:
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        self.sessions.end_all(FailureCode.CANCELLED, "the node ends")
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await self.sessions.drain()
        except TimeoutError:
            logger.warning("sessions were not closed in time")
        await self.worker.end()

    # The worker's steps

    async def _start_worker(self) -> None:
        await asyncio.sleep(self.state.worker.start_delay_s)
        try:
            self._emit(WorkerStarted(await self.worker.start()))
        except WorkerEndedError as error:
            self._on_worker_end(error.end)

    async def _load_shard(self) -> None:
        try:
            await self.worker.load()
            self._emit(ShardLoaded())
        except WorkerEndedError as error:
            self._on_worker_end(error.end)

    async def _test_shard(self) -> None:
        await asyncio.sleep(self.state.worker.self_test_delay_s)
        try:
            result = await self.worker.self_test(is_awaited=self.state.worker.self_test is SelfTest.FAILED)
        except WorkerEndedError as error:
            self._on_worker_end(error.end)
            return
        except MeshnetError as error:
            delay_s = SELF_TEST_RETRY.delay_s(self.state.worker.self_test_delays + 1, self._jitter())
            logger.warning("the self test is put off: %s; next try in %.1f s", error.message, delay_s)
            self._emit(SelfTestPutOff(f"the self test is put off: {error.message}", delay_s))
            return
        if result is None:
            logger.warning(NOT_TESTED)
            self._emit(SelfTested(SelfTest.ABSENT, NOT_TESTED))
        elif result.is_passed:
            logger.info("self test passed: %s", result.text)
            self._emit(SelfTested(SelfTest.PASSED, result.text))
        else:
            await self._reject_shard(f"self test failed: {result.text}")

    async def _reject_shard(self, text: str) -> None:
        is_serving = self.state.worker.phase is WorkerPhase.SERVING
        self._emit(SelfTested(SelfTest.FAILED, text))
        if is_serving:
            self.worker.condemn(text)
        else:
            self._on_worker_end(await self.worker.reject(text))

    async def _measure_shard(self) -> None:
        try:
            await self.worker.measure()
            self._emit(ShardMeasured())
        except WorkerEndedError as error:
            self._on_worker_end(error.end)

    async def _serve(self) -> None:
        known: list[int] = []

        def on_status() -> None:
            status = self.worker.status
            sessions = len(status.sessions) if status is not None else 0
            if known != [sessions]:
                known[:] = [sessions]
                self._emit(SessionsChanged())

        self._on_worker_end(await self.worker.serve(self.sessions, on_status))

    def _on_worker_end(self, end: WorkerEnd) -> None:
        outcome = plan_restart(end, self.state.worker.failures, self._jitter(), has_served=self.state.worker.has_served)
        why = explain(end)
        logger.warning("worker: %s (%s)", why, end.code)
        # The state changes first, so that sessions that end now are not closed on a worker that no longer exists.
        if isinstance(outcome, GiveUp):
            self._emit(WorkerGivenUp(outcome.reason))
            self._emit(FatalFailure(outcome.reason))
        else:
            self._emit(WorkerDown(why, outcome.failures, outcome.delay_s))
        self.sessions.end_all(WORKER_LOST, end.message)

    async def _hold_data(self) -> None:
        await self.sessions.data.run(lambda: self.state.relay_url)

    # For the sessions

    def check_admission(self, request: control_pb2.OpenStage) -> None:
        """Raise StageRefusedError if the node is not ready or paused, or the request is for another model or worker."""
        shard = self.worker.shard
        if not is_offered(self.state) or shard is None:
            raise StageRefusedError(FailureCode.NOT_READY, "the node is not ready")
        if self.state.is_paused:
            raise StageRefusedError(FailureCode.PAUSED, "the volunteer paused this node")
        if request.artifact_digest != shard.artifact_digest:
            raise StageRefusedError(FailureCode.CONTRACT_MISMATCH, "the node serves another artifact")
        if request.link_fingerprint and request.link_fingerprint != self.worker.peers.fingerprint:
            raise StageRefusedError(WORKER_CHANGED, "the node's worker is another one than the route was planned with")

    def serving_worker(self) -> WorkerClient:
        """Return the client of the worker; raise StageRefusedError if no worker is serving."""
        worker = self.worker.client if self.state.worker.phase is WorkerPhase.SERVING else None
        if worker is None:
            raise StageRefusedError(FailureCode.NOT_READY, "the node has no worker that serves")
        return worker

    def send_to_site(self, message: control_pb2.NodeMessage) -> None:
        """Send a message to the site; it is dropped if the control connection is down (see `ControlMachine.send`)."""
        if self._site is not None:
            self._site.connection.send(message)

    def on_sessions_changed(self) -> None:
        """Note that a session opened or ended."""
        self._emit(SessionsChanged())

    def on_data_changed(self, is_connected: bool) -> None:
        """Note that the relay connection was made or lost."""
        self._emit(DataChanged(is_connected))
