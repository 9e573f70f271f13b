"""All sessions of this node, the site's and this machine's own; they share one relay connection and one bridge.

Invariants: a session is admitted to the queues before its first packet can come, and dropped from them when it ends. If
the worker gave a reason for failing a session, the site is told that reason. Decides nothing about the node as a whole;
the agent does. One event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from meshnet.failure_codes import FailureCode
from meshnet.ids import SessionKey
from node_app.relay.data_connection import DataConnection, DataListener
from node_app.sessions.bridging import Bridging
from node_app.sessions.local.limits import SessionLimits
from node_app.sessions.local.opening import LocalSessions
from node_app.sessions.reconcile import Differences, compare, confirmed
from node_app.sessions.stages import StageHost, StageKeeper
from node_app.sessions.worker_queue import WorkerQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.keys import SigningKey
    from meshnet.v1 import worker_pb2
    from node_app.worker.client import WorkerClient


class SessionsHost(StageHost, Protocol):
    """The part of the agent that the sessions use. Called on the event loop; must not block."""

    def on_data_changed(self, is_connected: bool) -> None:
        """Note that the relay connection was made or lost."""


class NodeSessions:
    """Owns the stages, the local sessions, the relay connection and the current worker's bridge."""

    def __init__(self, key: SigningKey, host: SessionsHost, jitter: Callable[[], float]) -> None:
        self.to_worker = WorkerQueue(self.end)
        self.data = DataConnection(key, DataListener(host.on_data_changed, self.to_worker.receive, self.end), jitter)
        self.stages = StageKeeper(self.data, self.to_worker, host)
        self.local = LocalSessions(self.to_worker, host, SessionLimits())
        self.bridging = Bridging(self.to_worker, self.stages, self.local, self.data.send, self.end)
        self._differences = Differences()

    def keys(self) -> frozenset[SessionKey]:
        """Return the sessions that are open here, for the site and for this machine."""
        return self.stages.keys() | self.local.keys()

    async def carry(self, worker: WorkerClient) -> None:
        """Carry packets between a worker's bridge and the relay until the bridge ends.

        Raises:
            WorkerError: the bridge broke.
        """
        self._differences = Differences()
        await self.bridging.run(worker.bridge())

    def reconcile(self, status: worker_pb2.StatusReply) -> None:
        """Compare the open sessions with those in the worker's status.

        A session that the worker no longer has is ended here; one that is unknown here is closed on the worker. Both
        happen only if two statuses in a row show it.
        """
        listed = frozenset(SessionKey(one.session, one.epoch) for one in status.sessions)
        now = compare(self.keys(), self.stages.opening() | self.local.opening(), listed)
        settled, self._differences = confirmed(self._differences, now), now
        for key in settled.vanished:
            stage = self.stages.find(key)
            reason = stage.worker_reason if stage is not None else None
            self.end(key, *(reason or (FailureCode.IDLE, "the worker freed the session")))
        for key in settled.orphaned:
            self.stages.close_stray(key)

    def end(self, key: SessionKey, code: str, message: str) -> None:
        """End a session that broke a rule, or that the worker or the relay no longer carries. Idempotent."""
        self.stages.end(key, code, message)
        self.local.fail(key, code, message)

    def end_all(self, code: str, message: str) -> None:
        """End every session, because the worker has ended or the agent ends."""
        self.stages.end_all(code, message)
        self.local.fail_all(code, message)

    async def drain(self) -> None:
        """Wait until all sessions that ended are closed on the worker."""
        await self.stages.drain()
        await self.local.drain()
