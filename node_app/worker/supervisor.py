"""Starts, watches and ends the worker.

Invariants: at most one worker exists; `watch` returns once for each started worker, with the reason of its end. A
worker that is judged dead is killed before `watch` returns, so it cannot answer later. `restart.py` decides whether and
when a worker is started again.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.errors import WorkerError
from node_app.worker.client import WorkerClient
from node_app.worker.health_watch import HealthWatch
from node_app.worker.process import WorkerCommand, WorkerProcess, describe_exit
from node_app.worker.refusal import WORKER_LOST
from node_app.worker.restart import EndCause, WorkerEnd

if TYPE_CHECKING:
    from meshnet.v1 import worker_pb2
    from node_app.worker.health import HealthLimits
    from node_app.worker.health_watch import ProbeListener, StatusListener

START_TIMEOUT_S = 20.0
END_GRACE_S = 3.0

# A broken stream most often means that the process ended. Its exit status comes a little later and says more, so it is
# waited for.
EXIT_NEWS_S = 0.25


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A started worker: its process, its answer to Describe, and the client that calls it."""

    process: WorkerProcess
    description: worker_pb2.DescribeReply
    client: WorkerClient


class WorkerSupervisor:
    """Starts, watches and ends the worker. Owns the process and the channel; main thread's event loop only."""

    def __init__(self, command: WorkerCommand, limits: HealthLimits) -> None:
        self._command = command
        self._limits = limits
        self._running: RunningWorker | None = None
        self._condemned = asyncio.Event()
        self._condemned_for = (EndCause.BRIDGE_LOST, "")

    @property
    def running(self) -> RunningWorker | None:
        """The started worker, if there is one."""
        return self._running

    async def start(self) -> RunningWorker:
        """Start a worker, after ending the present one, and ask for its description.

        Raises:
            WorkerError: the worker did not become ready; nothing is left running.
        """
        await self.end(grace_s=0.0)
        process = await WorkerProcess.start(self._command, START_TIMEOUT_S)
        client = WorkerClient(self._command.socket_path)
        try:
            description = await client.describe()
        except BaseException:
            await client.close()
            await process.end(grace_s=0.0)
            raise
        self._condemned.clear()
        self._running = RunningWorker(process, description, client)
        return self._running

    def condemn(self, cause: EndCause, reason: str) -> None:
        """Let `watch` end the worker, because another part of the agent saw a failure (a broken bridge, wrong rows)."""
        self._condemned_for = (cause, reason)
        self._condemned.set()

    async def watch(self, on_status: StatusListener, on_probe: ProbeListener) -> WorkerEnd:
        """Watch the running worker until it ends or fails, kill it if it still runs, and return the reason.

        Args:
            on_status: called with every status, on the event loop.
            on_probe: called with the result of every successful probe, on the event loop.

        Raises:
            WorkerError: no worker is running.
        """
        running = self._running
        if running is None:
            raise WorkerError(WORKER_LOST, "Worker lost", "no worker is running")
        started_s = time.monotonic()
        exited = asyncio.create_task(running.process.wait(), name="worker-exit")
        sick = asyncio.create_task(
            HealthWatch(running.client, self._limits, on_status, on_probe).until_sick(), name="worker-health"
        )
        condemned = asyncio.create_task(self._condemned.wait(), name="worker-condemned")
        tasks = (exited, sick, condemned)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({exited}, timeout=EXIT_NEWS_S)
            served_s = time.monotonic() - started_s
            if exited.done():
                message = f"the worker ended ({describe_exit(exited.result())})"
                return WorkerEnd(EndCause.EXITED, "worker_exited", message, served_s)
            if sick.done():
                cause, error = sick.result()
                return WorkerEnd(cause, error.code, error.message, served_s)
            cause, reason = self._condemned_for
            return WorkerEnd(cause, cause.name.lower(), reason, served_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.end(grace_s=0.0)

    async def end(self, grace_s: float = END_GRACE_S) -> None:
        """End the worker; kill it if it does not end within `grace_s`. Idempotent."""
        running, self._running = self._running, None
        if running is not None:
            await running.client.close()
            await running.process.end(grace_s)
