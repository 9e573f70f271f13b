"""Follows a running worker's status and, if the worker is idle, lets it compute one row to see that it still can.

Invariants: every wait for a status or a probe has a deadline (`HealthLimits`), so a stopped or deadlocked worker is
noticed without its help. Cancelling ends the watch and its probe.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from meshnet.errors import WorkerError
from meshnet.failure_codes import FailureCode
from node_app.worker.health import MILLISECONDS_PER_S, EngineActivity, HealthLimits, ProbeClock, is_stuck
from node_app.worker.refusal import WORKER_LOST
from node_app.worker.restart import EndCause

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.v1 import worker_pb2
    from node_app.worker.client import ProbeResult, WorkerClient

    StatusListener = Callable[[worker_pb2.StatusReply], None]
    ProbeListener = Callable[[ProbeResult], None]

# The engine has no room for a probe beside its sessions. It has not failed: their steps prove that it computes.
INCONCLUSIVE_CODES = frozenset({FailureCode.KV_EXHAUSTED, FailureCode.TOO_MANY_SESSIONS})


class HealthWatch:
    """Watches one worker. Used once, on the event loop of the client."""

    def __init__(
        self, client: WorkerClient, limits: HealthLimits, on_status: StatusListener, on_probe: ProbeListener
    ) -> None:
        self._client = client
        self._limits = limits
        self._on_status = on_status
        self._on_probe = on_probe
        self._clock = ProbeClock(limits, time.monotonic())
        self._probe: asyncio.Task[ProbeResult] | None = None

    async def until_sick(self) -> tuple[EndCause, WorkerError]:
        """Watch until the worker has failed, and return the cause and the error."""
        interval_ms = int(self._limits.status_interval_s * MILLISECONDS_PER_S)
        try:
            async for status in self._client.watch_status(interval_ms, self._limits.silence_s):
                self._on_status(status)
                verdict = self._judge(_activity(status))
                if verdict is not None:
                    return verdict
        except WorkerError as error:
            return EndCause.STALLED, error
        finally:
            await self._drop_probe()
        return EndCause.STALLED, WorkerError(WORKER_LOST, "Worker lost", "the worker stopped reporting")

    def _judge(self, activity: EngineActivity) -> tuple[EndCause, WorkerError] | None:
        now_s = time.monotonic()
        self._clock.observe(activity, now_s)
        if is_stuck(activity, self._limits):
            message = f"a step of the worker lasts longer than {self._limits.step_s:g} s"
            return EndCause.STALLED, WorkerError("worker_stalled", "Worker stalled", message)
        if self._probe is None:
            if self._clock.is_due(activity, now_s):
                self._probe = asyncio.create_task(
                    self._client.probe(rows=1, timeout_s=self._limits.probe_deadline_s), name="worker-probe"
                )
            return None
        return self._probe_verdict(self._probe, now_s)

    def _probe_verdict(self, probe: asyncio.Task[ProbeResult], now_s: float) -> tuple[EndCause, WorkerError] | None:
        if not probe.done():
            return None
        self._probe = None
        failure = probe.exception()
        if isinstance(failure, WorkerError) and failure.code not in INCONCLUSIVE_CODES:
            return EndCause.PROBE_FAILED, failure
        if failure is not None and not isinstance(failure, WorkerError):
            raise failure
        self._clock.prove(now_s)
        if failure is None:
            self._on_probe(probe.result())
        return None

    async def _drop_probe(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)


def _activity(status: worker_pb2.StatusReply) -> EngineActivity:
    return EngineActivity(
        steps=status.steps,
        is_computing=status.computing,
        step_age_s=status.last_step_age_ms / MILLISECONDS_PER_S,
    )
