"""Everything of this node's sessions, wired together: stages for the site, local ones, relay connection and bridge.

Invariants: a session is admitted to the queues before its first packet can come and dropped when its stage goes; the
reason a worker gave for failing a session is the reason the site is told. Decides nothing about the node as a whole;
that is the agent's. One event loop.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from meshnet.failure_codes import FailureCode
from meshnet.ids import SessionKey
from node_app.relay.data_connection import DataLink
from node_app.sessions.bridging import Bridging
from node_app.sessions.local.limits import SessionLimits
from node_app.sessions.local.opening import LocalSessions
from node_app.sessions.meter import RollingRate
from node_app.sessions.reconcile import Differences, compare, confirmed
from node_app.sessions.stages import OpenStage, StageKeeper
from node_app.worker.refusal import StageRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meshnet.keys import SigningKey
    from meshnet.packets import Packet
    from meshnet.v1 import control_pb2, session_pb2, worker_pb2
    from node_app.relay.packet_queue import Offer
    from node_app.worker.client import WorkerClient


class PlaneHost(Protocol):
    """What the sessions need of the agent. Called on the event loop; must not block."""

    def check_admission(self, request: control_pb2.OpenStage) -> None:
        """Raise StageRefusedError where the node takes no such stage now."""

    def serving_worker(self) -> WorkerClient | None:
        """Return the worker, where one serves."""

    def send_to_site(self, message: control_pb2.NodeMessage) -> None:
        """Send over the control connection."""

    def on_sessions_changed(self) -> None:
        """A session came or went."""

    def on_data_changed(self, is_connected: bool) -> None:
        """The relay connection came or went."""


class SessionPlane:
    """Owns the stages, the relay connection and the current worker's bridge."""

    def __init__(self, key: SigningKey, host: PlaneHost, jitter: Callable[[], float]) -> None:
        self._host = host
        self.data = DataLink(key, self, jitter)
        self.stages = StageKeeper(self.data, self)
        self.local = LocalSessions(self, SessionLimits())
        self._bridging = Bridging(self)
        self._tokens = RollingRate()
        self._reasons: dict[SessionKey, tuple[str, str]] = {}
        self._differences = Differences()

    @property
    def tokens_per_s(self) -> float:
        """Token events that this node's tails emitted, per second."""
        return self._tokens.per_s(time.monotonic())

    async def carry(self, worker: WorkerClient) -> None:
        """Carry between a worker's bridge and the relay until the bridge ends.

        Raises:
            WorkerError: it broke.
        """
        self._differences = Differences()
        await self._bridging.run(worker.bridge())

    def reconcile(self, status: worker_pb2.StatusReply) -> None:
        """Bring both sides together after a status: end what vanished on the worker, close what nobody knows."""
        listed = frozenset(SessionKey(one.session, one.epoch) for one in status.sessions)
        known = self.stages.keys() | self.local.keys()
        now = compare(known, self.stages.opening() | self.local.opening(), listed)
        settled, self._differences = confirmed(self._differences, now), now
        for key in settled.vanished:
            code, message = self._reasons.get(key, (FailureCode.IDLE, "the worker freed the session"))
            self._end(key, code, message)
        for key in settled.orphaned:
            self.stages.close_stray(key)

    def end_all(self, code: str, message: str) -> None:
        """End every session (the worker is gone, or the agent ends)."""
        self.stages.end_all(code, message)
        self.local.fail_all(code, message)

    async def drain(self) -> None:
        """Wait until everything released is closed on the worker."""
        await self.stages.drain()
        await self.local.drain()

    def _end(self, key: SessionKey, code: str, message: str) -> None:
        self.stages.end(key, code, message)
        self.local.fail(key, code, message)

    @property
    def sessions(self) -> int:
        """Sessions that are open here, for the site and for this machine."""
        return len(self.stages.keys()) + len(self.local.keys())

    # For the data connection

    def on_data_changed(self, is_connected: bool) -> None:
        """Pass on that the relay connection came or went."""
        self._host.on_data_changed(is_connected)

    def on_packets(self, packets: Iterable[Packet]) -> None:
        """Queue packets for the worker."""
        self._bridging.receive(packets)

    def on_binding_over(self, key: SessionKey, code: str, message: str) -> None:
        """End a session that the relay does not carry any more."""
        self.stages.end(key, code, message)

    # For the stages

    def check_admission(self, request: control_pb2.OpenStage) -> None:
        """Ask the agent."""
        self._host.check_admission(request)

    def worker_for_stages(self) -> WorkerClient:
        """Return the worker that serves; raises StageRefusedError where none does."""
        worker = self._host.serving_worker()
        if worker is None:
            raise StageRefusedError(FailureCode.NOT_READY, "the node has no worker that serves")
        return worker

    def send_to_site(self, message: control_pb2.NodeMessage) -> None:
        """Pass on to the control connection."""
        self._host.send_to_site(message)

    def on_stage_opened(self, stage: OpenStage) -> None:
        """Let its packets through."""
        self._bridging.admit(stage.key, stage.queue_bytes)
        self._host.on_sessions_changed()

    def on_stage_gone(self, stage: OpenStage) -> None:
        """Forget what it held."""
        self._bridging.drop(stage.key)
        self._reasons.pop(stage.key, None)
        self._host.on_sessions_changed()

    # For the local sessions

    def send_to_worker(self, packets: list[Packet]) -> None:
        """Queue packets for the worker."""
        self._bridging.receive(packets)

    def on_local_opened(self, key: SessionKey, queue_bytes: int) -> None:
        """Let its packets through."""
        self._bridging.admit(key, queue_bytes)
        self._host.on_sessions_changed()

    def on_local_gone(self, key: SessionKey) -> None:
        """Forget what it held."""
        self._bridging.drop(key)
        self._host.on_sessions_changed()

    # For the bridge

    def take_locally(self, key: SessionKey, message: session_pb2.EdgeMessage) -> bool:
        """Give a message to the local session that it is for; False where it is for none."""
        is_local = self.local.receive(key, message)
        if is_local and message.HasField("token"):
            self.on_token()
        return is_local

    def find_stage(self, key: SessionKey) -> OpenStage | None:
        """Return this node's stage in a session."""
        return self.stages.find(key)

    def send_packet(self, packet: Packet) -> Offer:
        """Queue a packet for the relay."""
        return self.data.send(packet)

    def on_token(self) -> None:
        """Count a token."""
        self._tokens.count(time.monotonic())

    def on_worker_failure(self, key: SessionKey, failure: session_pb2.StageFailure) -> None:
        """Remember why the worker gave a session up."""
        self._reasons[key] = (failure.code, failure.message)

    def on_session_broken(self, key: SessionKey, code: str, message: str) -> None:
        """End a session that broke a rule."""
        self._end(key, code, message)
