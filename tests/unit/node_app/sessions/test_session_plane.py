"""Sessions of the site and of this machine side by side: neither is taken for a stray of the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from meshnet.errors import MeshnetError
from meshnet.ids import SessionKey
from meshnet.keys import SigningKey
from meshnet.v1 import control_pb2, session_pb2, worker_pb2
from node_app.sessions.session_plane import SessionPlane
from tests.unit.node_app.sessions.local.local_kit import SHARD, Worker, a_request

if TYPE_CHECKING:
    from node_app.sessions.local.session import LocalSession
    from node_app.worker.client import WorkerClient

DEADLINE_S = 5.0
STRAY = SessionKey(b"x" * 16, 1)


@dataclass
class Host:
    worker: Worker = field(default_factory=Worker)
    changes: int = 0

    def check_admission(self, request: control_pb2.OpenStage) -> None: ...

    def serving_worker(self) -> WorkerClient:
        return cast("WorkerClient", self.worker)

    def send_to_site(self, message: control_pb2.NodeMessage) -> None: ...

    def on_sessions_changed(self) -> None:
        self.changes += 1

    def on_data_changed(self, is_connected: bool) -> None: ...


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def plane(host: Host) -> SessionPlane:
    return SessionPlane(SigningKey.generate(), host, lambda: 0.5)


async def opened(plane: SessionPlane) -> LocalSession:
    return await plane.local.open(a_request(), SHARD)


def status(*keys: SessionKey) -> worker_pb2.StatusReply:
    sessions = [worker_pb2.SessionStatus(session=key.session, epoch=key.epoch) for key in keys]
    return worker_pb2.StatusReply(ready=True, sessions=sessions)


def token(key: SessionKey) -> session_pb2.EdgeMessage:
    return session_pb2.EdgeMessage(
        session=key.session, epoch=key.epoch, from_stage=0, to_stage=127, token=session_pb2.TokenEvent()
    )


async def test_a_local_session_on_the_worker_is_no_stray(plane: SessionPlane, host: Host) -> None:
    session = await opened(plane)
    for _ in range(3):
        plane.reconcile(status(session.key, STRAY))
    await plane.drain()
    assert set(host.worker.closed) == {STRAY}
    assert plane.sessions == 1
    await session.close("over")
    assert (plane.sessions, host.changes) == (0, 2)


async def test_a_local_session_that_the_worker_freed_is_told_so(plane: SessionPlane) -> None:
    session = await opened(plane)
    plane.reconcile(status())
    assert await session.next_event(0.01) is None  # once is no proof
    plane.reconcile(status())
    with pytest.raises(MeshnetError, match="idle"):
        await session.next_event(DEADLINE_S)
    await session.close("over")


async def test_the_end_of_all_ends_local_ones_too(plane: SessionPlane) -> None:
    sessions = [await opened(plane) for _ in range(2)]
    plane.end_all("worker_lost", "the worker ended")
    for session in sessions:
        with pytest.raises(MeshnetError, match="the worker ended"):
            await session.next_event(DEADLINE_S)
        await session.close("over")
    assert plane.sessions == 0


async def test_only_its_own_messages_are_taken_locally(plane: SessionPlane) -> None:
    session = await opened(plane)
    assert not plane.take_locally(STRAY, token(STRAY))
    assert plane.take_locally(session.key, token(session.key))
    with pytest.raises(MeshnetError, match="wrong_position"):  # so it was taken
        await session.next_event(DEADLINE_S)
    await session.close("over")
