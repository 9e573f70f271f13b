"""Opening, closing and ending stages; the worker and the relay are stand-ins that record and can be held up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from meshnet.constants import GATEWAY_STAGE
from meshnet.errors import WorkerError
from meshnet.ids import SessionKey
from meshnet.v1 import control_pb2, session_pb2
from node_app.relay.packet_queue import PacketQueue
from node_app.sessions.stages import CONTROL_BYTES, OPENING_MAX, StageKeeper
from node_app.worker.refusal import StageRefusedError

if TYPE_CHECKING:
    from meshnet.member_events import Binding
    from node_app.worker.client import WorkerClient

WINDOW_BYTES = 4096
DEADLINE_S = 5.0


@dataclass
class Worker:
    """Records opens and closes; `gate` holds opens up, `failure` is raised by them."""

    opened: list[SessionKey] = field(default_factory=list)
    closed: list[tuple[SessionKey, str]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Exception | None = None

    async def open_session(self, spec: session_pb2.SessionSpec, timeout_s: float) -> session_pb2.BoundaryContract:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.opened.append(SessionKey(spec.session, spec.epoch))
        return session_pb2.BoundaryContract(architecture="fake")

    async def close_session(self, session: bytes, epoch: int, reason: str) -> bool:
        self.closed.append((SessionKey(session, epoch), reason))
        return True


@dataclass
class Relay:
    bound: set[SessionKey] = field(default_factory=set)
    failure: StageRefusedError | None = None

    async def bind(self, binding: Binding, signed_ticket: bytes, queue_bytes: int) -> None:
        assert queue_bytes == WINDOW_BYTES + CONTROL_BYTES
        if self.failure is not None:
            raise self.failure
        self.bound.add(binding.key)

    def unbind(self, binding: Binding) -> None:
        self.bound.discard(binding.key)


@dataclass
class Node:
    """The agent's part: hands out the worker, keeps what is sent to the site."""

    worker: Worker | None = field(default_factory=Worker)
    refusal: StageRefusedError | None = None
    sent: list[control_pb2.NodeMessage] = field(default_factory=list)
    changes: int = 0

    def check_admission(self, request: control_pb2.OpenStage) -> None:
        if self.refusal is not None:
            raise self.refusal

    def serving_worker(self) -> WorkerClient:
        if self.worker is None:
            raise StageRefusedError("not_ready", "no worker")
        return cast("WorkerClient", self.worker)

    def send_to_site(self, message: control_pb2.NodeMessage) -> None:
        self.sent.append(message)

    def on_sessions_changed(self) -> None:
        self.changes += 1

    def answers(self) -> list[tuple[str, int, str]]:
        """(body, request id or 0, code) of everything sent."""
        found = []
        for message in self.sent:
            body = message.WhichOneof("body") or ""
            part = getattr(message, body)
            found.append((body, getattr(part, "request_id", 0), getattr(part, "code", "")))
        return found


class Queue(PacketQueue):
    """Tells the admitted sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.present: set[SessionKey] = set()

    def admit(self, key: SessionKey, limit_bytes: int) -> None:
        assert limit_bytes >= CONTROL_BYTES
        super().admit(key, limit_bytes)
        self.present.add(key)

    def drop(self, key: SessionKey) -> None:
        super().drop(key)
        self.present.discard(key)


class Setting:
    def __init__(self) -> None:
        self.node, self.relay, self.queue = Node(), Relay(), Queue()
        self.keeper = StageKeeper(self.relay, self.queue, self.node)
        self.worker = cast("Worker", self.node.worker)
        self.worker.gate.set()

    async def settle(self) -> None:
        """Let every task that can go on go on."""
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def setting() -> Setting:
    return Setting()


def key(number: int = 0, epoch: int = 1) -> SessionKey:
    return SessionKey(bytes([number]) * 16, epoch)


def request(of: SessionKey, request_id: int = 1, *, ticket: bytes = b"ticket", stage: int = 0) -> control_pb2.OpenStage:
    edge = session_pb2.EdgeSpec(
        from_stage=GATEWAY_STAGE, to_stage=0, carrier=session_pb2.EdgeSpec.CARRIER_RELAY, window_bytes=WINDOW_BYTES
    )
    direct = session_pb2.EdgeSpec(
        from_stage=0, to_stage=1, carrier=session_pb2.EdgeSpec.CARRIER_DIRECT, window_bytes=1 << 30
    )
    spec = session_pb2.SessionSpec(session=of.session, epoch=of.epoch, stage=stage, n_stages=2, edges=[edge, direct])
    return control_pb2.OpenStage(request_id=request_id, spec=spec, ticket=ticket)


async def test_a_stage_is_open_on_the_worker_and_at_the_relay_before_the_site_hears(setting: Setting) -> None:
    setting.keeper.open(request(key()))
    assert setting.keeper.opening() == {key()}
    assert setting.keeper.keys() == frozenset()
    await setting.settle()
    assert setting.node.answers() == [("opened", 1, "")]
    assert setting.node.sent[0].opened.contract.architecture == "fake"
    assert (setting.worker.opened, setting.relay.bound, setting.queue.present) == ([key()], {key()}, {key()})
    assert setting.keeper.keys() == {key()}
    assert setting.keeper.opening() == frozenset()


async def test_a_stage_without_a_ticket_needs_no_relay(setting: Setting) -> None:
    setting.keeper.open(request(key(), ticket=b""))
    await setting.settle()
    assert setting.node.answers() == [("opened", 1, "")]
    assert setting.relay.bound == set()


async def test_closing_lets_go_everywhere_and_once(setting: Setting) -> None:
    setting.keeper.open(request(key()))
    await setting.settle()
    setting.keeper.close(key(), "done")
    setting.keeper.close(key(), "again")
    await setting.keeper.drain()
    assert setting.worker.closed == [(key(), "done")]
    assert (setting.relay.bound, setting.queue.present, setting.keeper.keys()) == (set(), set(), frozenset())
    assert setting.node.changes == 2  # it came, and it went
    assert setting.node.answers() == [("opened", 1, "")]


async def test_ending_tells_the_site_once(setting: Setting) -> None:
    setting.keeper.open(request(key(), stage=1))
    await setting.settle()
    setting.keeper.end(key(), "idle", "nothing came")
    setting.keeper.end(key(), "idle", "nothing came")
    await setting.keeper.drain()
    assert setting.node.answers() == [("opened", 1, ""), ("ended", 0, "idle")]
    ended = setting.node.sent[1].ended
    assert (ended.session, ended.epoch, ended.stage, ended.message) == (key().session, 1, 1, "nothing came")


async def test_a_lost_worker_ends_all_and_is_not_asked(setting: Setting) -> None:
    for number in range(3):
        setting.keeper.open(request(key(number), number + 1))
    await setting.settle()
    setting.node.worker = None
    setting.keeper.end_all("worker_lost", "it died")
    await setting.keeper.drain()
    assert [body for body, _, code in setting.node.answers() if code == "worker_lost"] == ["ended"] * 3
    assert setting.worker.closed == []
    assert setting.relay.bound == set()


async def test_closing_wins_over_an_opening_and_still_answers_it(setting: Setting) -> None:
    setting.worker.gate.clear()
    setting.keeper.open(request(key()))
    await setting.settle()
    setting.keeper.close(key(), "the client left")
    setting.worker.gate.set()
    await setting.settle()
    await setting.keeper.drain()
    assert setting.node.answers() == [("refused", 1, "cancelled")]
    assert setting.worker.closed == [(key(), "the client left")]
    assert setting.keeper.opening() == frozenset()


async def test_an_opening_that_never_began_is_answered_too(setting: Setting) -> None:
    setting.keeper.open(request(key()))
    setting.keeper.close(key(), "the client left")
    await setting.settle()
    await setting.keeper.drain()
    assert setting.node.answers() == [("refused", 1, "cancelled")]
    assert setting.worker.opened == []


async def test_an_end_during_an_opening_is_told_by_its_code(setting: Setting) -> None:
    setting.worker.gate.clear()
    setting.keeper.open(request(key()))
    await setting.settle()
    setting.node.worker = None
    setting.keeper.end_all("worker_lost", "it died")
    await setting.settle()
    assert setting.node.answers() == [("refused", 1, "worker_lost")]
    assert setting.relay.bound == set()


async def test_a_worker_that_refuses_is_told_and_nothing_is_left(setting: Setting) -> None:
    setting.worker.failure = StageRefusedError("kv_exhausted", "no cells")
    setting.keeper.open(request(key()))
    await setting.settle()
    assert setting.node.answers() == [("refused", 1, "kv_exhausted")]
    assert (setting.keeper.keys(), setting.keeper.opening()) == (frozenset(), frozenset())


async def test_a_worker_that_fails_is_told_by_its_code(setting: Setting) -> None:
    setting.worker.failure = WorkerError("worker_lost", "Worker lost", "gone")
    setting.keeper.open(request(key()))
    await setting.settle()
    assert setting.node.answers() == [("refused", 1, "worker_lost")]


async def test_an_error_nobody_foresaw_is_answered_too(setting: Setting, caplog: pytest.LogCaptureFixture) -> None:
    setting.worker.failure = KeyError("a mistake of ours")
    setting.keeper.open(request(key()))
    await setting.settle()
    assert setting.node.answers() == [("refused", 1, "not_ready")]
    assert "KeyError" in caplog.text
    assert "a mistake of ours" not in caplog.text  # it might have quoted the request


async def test_a_relay_that_refuses_closes_what_the_worker_opened(setting: Setting) -> None:
    setting.relay.failure = StageRefusedError("ticket_expired", "too late")
    setting.keeper.open(request(key()))
    await setting.settle()
    await setting.keeper.drain()
    assert setting.node.answers() == [("refused", 1, "ticket_expired")]
    assert setting.worker.closed == [(key(), "ticket_expired")]
    assert setting.queue.present == set()


async def test_an_opening_has_a_deadline(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node_app.sessions.stages.OPEN_TIMEOUT_S", 0.01)
    setting.worker.gate.clear()
    setting.keeper.open(request(key()))
    async with asyncio.timeout(DEADLINE_S):
        while not setting.node.sent:  # noqa: ASYNC110 - the answer is a list that a test looks at
            await asyncio.sleep(0.005)
    assert setting.node.answers() == [("refused", 1, "not_ready")]


async def test_admission_has_the_first_word(setting: Setting) -> None:
    setting.node.refusal = StageRefusedError("paused", "the volunteer paused")
    setting.keeper.open(request(key()))
    await setting.settle()
    assert setting.node.answers() == [("refused", 1, "paused")]
    assert setting.worker.opened == []


async def test_one_session_is_open_once(setting: Setting) -> None:
    setting.keeper.open(request(key(), 1))
    setting.keeper.open(request(key(), 2))
    await setting.settle()
    setting.keeper.open(request(key(), 3))
    assert [(body, number) for body, number, _ in setting.node.answers()] == [
        ("refused", 2), ("opened", 1), ("refused", 3),
    ]  # fmt: skip
    assert setting.worker.opened == [key()]


async def test_a_newer_attempt_takes_the_place_of_the_older(setting: Setting) -> None:
    setting.keeper.open(request(key(epoch=1), 1))
    await setting.settle()
    setting.keeper.open(request(key(epoch=2), 2))
    await setting.settle()
    await setting.keeper.drain()
    assert setting.keeper.keys() == {key(epoch=2)}
    assert [closed for closed, _ in setting.worker.closed] == [key(epoch=1)]


async def test_openings_are_bounded(setting: Setting) -> None:
    setting.worker.gate.clear()
    for number in range(OPENING_MAX + 1):
        setting.keeper.open(request(key(number), number))
    assert setting.node.answers() == [("refused", OPENING_MAX, "too_many_sessions")]
    setting.worker.gate.set()
    await setting.settle()
    assert len(setting.keeper.keys()) == OPENING_MAX


@pytest.mark.parametrize(
    "change",
    [{"session": b"short"}, {"epoch": 0}, {"stage": 2}, {"n_stages": 0}],
)
async def test_a_request_that_names_nothing_is_malformed(setting: Setting, change: dict[str, object]) -> None:
    bad = request(key())
    for name, value in change.items():
        setattr(bad.spec, name, value)
    setting.keeper.open(bad)
    await setting.settle()
    assert setting.node.answers() == [("refused", 1, "malformed")]


async def test_after_a_reconnect_only_what_the_site_wants_is_kept(setting: Setting) -> None:
    for number in range(3):
        setting.keeper.open(request(key(number), number + 1))
    await setting.settle()
    setting.keeper.keep_only([key(1), key(9)])
    await setting.keeper.drain()
    assert setting.keeper.keys() == {key(1)}
    assert {closed for closed, _ in setting.worker.closed} == {key(0), key(2)}
    assert [body for body, _, _ in setting.node.answers()] == ["opened"] * 3
