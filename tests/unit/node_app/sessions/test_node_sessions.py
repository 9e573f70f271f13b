"""Sessions of the site and of this machine side by side: neither is taken for a stray of the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from meshnet.constants import GATEWAY_STAGE
from meshnet.errors import MeshnetError
from meshnet.ids import SessionKey
from meshnet.keys import SigningKey
from meshnet.packets import Packet, PacketKind
from meshnet.v1 import control_pb2, session_pb2, worker_pb2
from node_app.sessions.meter import WINDOW_S
from node_app.sessions.node_sessions import NodeSessions
from node_app.sessions.stages import CONTROL_BYTES
from tests.unit.node_app.sessions.local.local_kit import SHARD, Worker, a_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from node_app.sessions.local.session import LocalSession
    from node_app.worker.client import WorkerClient

DEADLINE_S = 5.0
STRAY = SessionKey(b"x" * 16, 1)


@dataclass
class SpokenBridge:
    """A bridge over which the worker says `messages`, and ends; `heard` is what it was sent."""

    messages: list[worker_pb2.BridgeMessage] = field(default_factory=list)
    heard: list[worker_pb2.BridgeMessage] = field(default_factory=list)

    async def batches(self) -> AsyncIterator[list[worker_pb2.BridgeMessage]]:
        yield self.messages

    async def send(self, messages: list[worker_pb2.BridgeMessage]) -> None:
        self.heard += messages

    def cancel(self) -> None: ...


@dataclass
class BridgedWorker:
    spoken: SpokenBridge

    def bridge(self) -> SpokenBridge:
        return self.spoken


async def carried(sessions: NodeSessions, *messages: session_pb2.EdgeMessage) -> list[worker_pb2.BridgeMessage]:
    """Carry these messages of the worker; return the ones that it was sent meanwhile."""
    bridge = SpokenBridge([worker_pb2.BridgeMessage(edge=message) for message in messages])
    async with asyncio.timeout(DEADLINE_S):
        await sessions.carry(cast("WorkerClient", BridgedWorker(bridge)))
    return bridge.heard


@dataclass
class Host:
    worker: Worker = field(default_factory=Worker)
    changes: int = 0
    sent: list[control_pb2.NodeMessage] = field(default_factory=list)

    def check_admission(self, request: control_pb2.OpenStage) -> None: ...

    def serving_worker(self) -> WorkerClient:
        return cast("WorkerClient", self.worker)

    def send_to_site(self, message: control_pb2.NodeMessage) -> None:
        self.sent.append(message)

    def on_sessions_changed(self) -> None:
        self.changes += 1

    def on_data_changed(self, is_connected: bool) -> None: ...


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def sessions(host: Host) -> NodeSessions:
    return NodeSessions(SigningKey.generate(), host, lambda: 0.5)


async def opened(sessions: NodeSessions) -> LocalSession:
    return await sessions.local.open(a_request(), SHARD)


def status(*keys: SessionKey) -> worker_pb2.StatusReply:
    sessions = [worker_pb2.SessionStatus(session=key.session, epoch=key.epoch) for key in keys]
    return worker_pb2.StatusReply(ready=True, sessions=sessions)


def token(key: SessionKey) -> session_pb2.EdgeMessage:
    return session_pb2.EdgeMessage(
        session=key.session, epoch=key.epoch, from_stage=0, to_stage=127, token=session_pb2.TokenEvent()
    )


async def test_a_local_session_on_the_worker_is_no_stray(sessions: NodeSessions, host: Host) -> None:
    session = await opened(sessions)
    for _ in range(3):
        sessions.reconcile(status(session.key, STRAY))
    await sessions.drain()
    assert set(host.worker.closed) == {STRAY}
    assert sessions.keys() == {session.key}
    await session.close("over")
    assert (sessions.keys(), host.changes) == (frozenset(), 2)


async def test_a_local_session_that_the_worker_freed_is_told_so(sessions: NodeSessions) -> None:
    session = await opened(sessions)
    sessions.reconcile(status())
    assert await session.next_event(0.01) is None  # once is no proof
    sessions.reconcile(status())
    with pytest.raises(MeshnetError, match="idle"):
        await session.next_event(DEADLINE_S)
    await session.close("over")


async def test_the_end_of_all_ends_local_ones_too(sessions: NodeSessions) -> None:
    both = [await opened(sessions) for _ in range(2)]
    sessions.end_all("worker_lost", "the worker ended")
    for session in both:
        with pytest.raises(MeshnetError, match="the worker ended"):
            await session.next_event(DEADLINE_S)
        await session.close("over")
    assert sessions.keys() == frozenset()


async def test_only_its_own_messages_are_taken_locally(sessions: NodeSessions) -> None:
    session = await opened(sessions)
    await carried(sessions, token(STRAY), token(session.key))
    assert sessions.bridging.tokens_per_s == 1 / WINDOW_S
    with pytest.raises(MeshnetError, match="wrong_position"):  # so it was taken
        await session.next_event(DEADLINE_S)
    await session.close("over")


async def a_stage(sessions: NodeSessions, host: Host) -> SessionKey:
    """Open a stage of the site that needs no relay."""
    key = SessionKey(b"y" * 16, 1)
    spec = session_pb2.SessionSpec(session=key.session, epoch=key.epoch, stage=0, n_stages=1)
    sessions.stages.open(control_pb2.OpenStage(request_id=1, spec=spec))
    async with asyncio.timeout(DEADLINE_S):
        while not host.sent:  # noqa: ASYNC110 - the answer is a list that a test looks at
            await asyncio.sleep(0.001)
    assert sessions.stages.keys() == {key}
    return key


def ended(host: Host) -> list[tuple[str, str]]:
    return [(message.ended.code, message.ended.message) for message in host.sent if message.HasField("ended")]


async def test_the_reason_of_the_worker_is_the_reason_that_the_site_is_told(sessions: NodeSessions, host: Host) -> None:
    key = await a_stage(sessions, host)
    failure = session_pb2.StageFailure(code="engine_failed", message="out of memory")
    await carried(
        sessions,
        session_pb2.EdgeMessage(
            session=key.session, epoch=key.epoch, from_stage=0, to_stage=GATEWAY_STAGE, failure=failure
        ),
    )
    for _ in range(2):
        assert ended(host) == []
        sessions.reconcile(status())
    assert ended(host) == [("engine_failed", "out of memory")]


async def test_a_vanished_stage_without_a_reason_was_idle(sessions: NodeSessions, host: Host) -> None:
    await a_stage(sessions, host)
    for _ in range(2):
        sessions.reconcile(status())
    assert ended(host) == [("idle", "the worker freed the session")]


async def test_a_stage_that_holds_more_than_its_windows_is_ended(sessions: NodeSessions, host: Host) -> None:
    key = await a_stage(sessions, host)
    packet = Packet(key, GATEWAY_STAGE, 0, PacketKind.CONTROL, bytes(CONTROL_BYTES))
    sessions.to_worker.receive([packet])
    assert [code for code, _ in ended(host)] == ["window_exceeded"]


async def test_a_malformed_payload_ends_its_session_and_never_reaches_the_worker(
    sessions: NodeSessions, host: Host
) -> None:
    key = await a_stage(sessions, host)
    sessions.to_worker.receive([Packet(key, GATEWAY_STAGE, 0, PacketKind.CONTROL, b"\xff\xff")])
    assert await carried(sessions) == []
    assert [code for code, _ in ended(host)] == ["malformed"]
