"""Opening and closing local sessions; the worker is a stand-in that records and can be held up or full."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from meshnet.errors import MeshnetError, WorkerError
from meshnet.ids import SessionKey
from meshnet.v1 import session_pb2
from node_app.sessions.local.limits import SessionLimits
from node_app.sessions.local.opening import LocalSessions
from node_app.sessions.worker_queue import WorkerQueue
from node_app.worker.refusal import StageRefusedError
from tests.unit.node_app.sessions.local.local_kit import CONTRACT, SHARD, Worker, a_request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.packets import Packet
    from node_app.worker.client import WorkerClient

DEADLINE_S = 5.0


@dataclass
class Host:
    worker: Worker | None = field(default_factory=Worker)
    changes: int = 0

    def serving_worker(self) -> WorkerClient:
        if self.worker is None:
            raise StageRefusedError("not_ready", "no worker")
        return cast("WorkerClient", self.worker)

    def on_sessions_changed(self) -> None:
        self.changes += 1


class Queue(WorkerQueue):
    """Tells the admitted sessions and every packet that came."""

    def __init__(self) -> None:
        super().__init__(lambda *_: pytest.fail("more than its limit"))
        self.admitted: set[SessionKey] = set()
        self.packets: list[Packet] = []

    def admit(self, key: SessionKey, limit_bytes: int) -> None:
        super().admit(key, limit_bytes)
        self.admitted.add(key)

    def drop(self, key: SessionKey) -> None:
        super().drop(key)
        self.admitted.remove(key)

    def receive(self, packets: Iterable[Packet]) -> None:
        arrived = list(packets)
        assert all(packet.key in self.admitted for packet in arrived)
        self.packets += arrived
        super().receive(arrived)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
async def queue() -> Queue:
    return Queue()


def worker_of(host: Host) -> Worker:
    assert host.worker is not None
    return host.worker


async def test_a_session_is_opened_fed_and_closed_once(host: Host, queue: Queue) -> None:
    sessions, worker = LocalSessions(queue, host, SessionLimits()), worker_of(host)
    session = await sessions.open(a_request(), SHARD)
    assert sessions.keys() == queue.admitted == worker.opened == {session.key}
    assert len(queue.packets) == 3  # the prompt's chunks
    await session.close("over")
    await session.close("again")
    assert (sessions.keys(), queue.admitted, worker.closed) == (frozenset(), set(), [session.key])
    assert host.changes == 2  # it came, and it went


async def test_a_full_worker_is_waited_for_in_turn(host: Host, queue: Queue) -> None:
    sessions, worker = LocalSessions(queue, host, SessionLimits()), worker_of(host)
    worker.places = 1
    first = await sessions.open(a_request(), SHARD)
    waiting = [asyncio.create_task(sessions.open(a_request(), SHARD)) for _ in range(2)]
    async with asyncio.timeout(DEADLINE_S):
        await first.close("over")
        second = await waiting[0]
        assert not waiting[1].done()
        await second.close("over")
        await (await waiting[1]).close("over")
    assert len(worker.closed) == 3


async def test_whoever_finds_no_place_in_time_is_told(host: Host, queue: Queue) -> None:
    sessions = LocalSessions(queue, host, SessionLimits(place_wait_s=0.2, waiting_max=5))
    worker_of(host).places = 0
    answers = await asyncio.gather(*(sessions.open(a_request(), SHARD) for _ in range(6)), return_exceptions=True)
    assert len(answers) == 6
    for answer in answers:
        assert isinstance(answer, StageRefusedError)
        assert answer.code == "too_many_sessions"
    assert sessions.opening() == frozenset()
    assert worker_of(host).closed == []


@pytest.mark.parametrize(
    ("failure", "is_closed"),
    [(StageRefusedError("not_ready", "loading"), False), (WorkerError("worker_timeout", "Late", "too late"), True)],
)
async def test_a_worker_that_does_not_open_is_told_to_close_where_it_may_have(
    host: Host, queue: Queue, failure: MeshnetError, *, is_closed: bool
) -> None:
    sessions, worker = LocalSessions(queue, host, SessionLimits()), worker_of(host)
    worker.failure = failure
    with pytest.raises(MeshnetError) as caught:
        await sessions.open(a_request(), SHARD)
    await sessions.drain()
    assert caught.value is failure
    assert (len(worker.closed), sessions.keys(), sessions.opening()) == (int(is_closed), frozenset(), frozenset())


async def test_another_model_on_the_worker_is_refused(host: Host, queue: Queue) -> None:
    sessions, worker = LocalSessions(queue, host, SessionLimits()), worker_of(host)
    for field_name, value in (("vocab_size", 999), ("contract_digest", b"d" * 32)):
        worker.contract = session_pb2.BoundaryContract.FromString(CONTRACT.SerializeToString())
        setattr(worker.contract, field_name, value)
        with pytest.raises(MeshnetError, match="contract_mismatch"):
            await sessions.open(a_request(), SHARD)
    await sessions.drain()
    assert worker.opened == set()
    assert len(worker.closed) == 2


async def test_a_caller_that_leaves_while_it_opens_leaves_nothing(host: Host, queue: Queue) -> None:
    sessions, worker = LocalSessions(queue, host, SessionLimits()), worker_of(host)
    worker.gate.clear()
    opening = asyncio.create_task(sessions.open(a_request(), SHARD))
    async with asyncio.timeout(DEADLINE_S):
        await worker.asked.wait()
    assert len(sessions.opening()) == 1
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    await sessions.drain()
    assert (worker.opened, sessions.opening(), len(worker.closed)) == (set(), frozenset(), 1)


async def test_a_lost_worker_fails_its_sessions_and_owes_no_close(host: Host, queue: Queue) -> None:
    sessions, worker = LocalSessions(queue, host, SessionLimits()), worker_of(host)
    session = await sessions.open(a_request(), SHARD)
    host.worker = None
    sessions.fail_all("worker_lost", "the worker ended")
    with pytest.raises(MeshnetError, match="stage_lost: the worker ended"):
        await session.next_event(DEADLINE_S)
    await session.close("over")
    assert (sessions.keys(), worker.closed) == (frozenset(), [])
    with pytest.raises(StageRefusedError):
        await sessions.open(a_request(), SHARD)


async def test_a_message_that_does_not_read_fails_its_session_alone(host: Host, queue: Queue) -> None:
    sessions = LocalSessions(queue, host, SessionLimits())
    first, second = [await sessions.open(a_request(), SHARD) for _ in range(2)]
    broken = session_pb2.EdgeMessage(session=first.key.session, epoch=1, from_stage=0, to_stage=127)
    assert sessions.receive(first.key, broken)
    assert not sessions.receive(SessionKey(b"?" * 16, 1), broken)
    with pytest.raises(MeshnetError, match="malformed"):
        await first.next_event(DEADLINE_S)
    assert await second.next_event(0.01) is None
    for session in (first, second):
        await session.close("over")
