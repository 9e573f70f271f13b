"""From a request to its answer: what is refused before anything is opened, and that what was opened is closed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from meshnet.errors import MeshnetError
from meshnet.generation.progress import TokenReceived
from meshnet.openai.errors import describe_error
from meshnet.openai.events import FinishReason
from meshnet.openai.parsing import parse_chat_request
from node_app.agent.state import WorkerPhase
from node_app.loopback.connection import ClientGoneError
from node_app.loopback.openai.answering import Answering
from node_app.loopback.openai.served_model import ServedModel
from node_app.sessions.local.machine import LocalRouteError
from node_app.worker.refusal import StageRefusedError
from tests.unit.node_app.loopback.openai.stand_ins import Recited, a_model, an_agent

if TYPE_CHECKING:
    from meshnet.openai.specification import GenerationSpec
    from node_app.loopback.connection import Headers, HttpConnection
    from node_app.sessions.local.opening import LocalSessions
    from node_app.sessions.local.session import LocalSession
    from node_app.sessions.local.terms import LocalRequest, LocalShard


def a_spec(model: str = "tiny", **fields: object) -> GenerationSpec:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}
    return parse_chat_request(json.dumps(body).encode())


def an_answer() -> Recited:
    return Recited([TokenReceived(0, 104), TokenReceived(1, 105, finish=FinishReason.LENGTH)])


@dataclass
class Sessions:
    """Opens the one session it has, and records what was asked for."""

    session: Recited = field(default_factory=an_answer)
    requests: list[LocalRequest] = field(default_factory=list)
    refusal: StageRefusedError | None = None

    async def open(self, request: LocalRequest, shard: LocalShard) -> LocalSession:
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        return self.session.session


@dataclass
class Connection:
    """Records what is sent; the client leaves after `patience` parts."""

    patience: int = 1000
    status: int = 0
    sent: bytes = b""
    is_ended: bool = False
    has_sent: asyncio.Event = field(default_factory=asyncio.Event)

    async def begin(self, status: int, headers: Headers) -> None:
        self.status = status

    async def send(self, data: bytes) -> None:
        self.patience -= 1
        if self.patience < 0:
            raise ClientGoneError("left")
        self.sent += data
        self.has_sent.set()

    async def end(self) -> None:
        self.is_ended = True

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        await self.begin(status, headers)
        await self.send(body)
        await self.end()


async def answer(
    spec: GenerationSpec,
    sessions: Sessions,
    connection: Connection,
    phase: WorkerPhase = WorkerPhase.SERVING,
    tokenise_timeout_s: float = 60.0,
) -> None:
    model = ServedModel(an_agent(phase), a_model())
    answering = Answering(model, cast("LocalSessions", sessions), "attic", tokenise_timeout_s)
    await answering.answer(cast("HttpConnection", connection), spec)


async def test_whole() -> None:
    sessions, connection = Sessions(), Connection()
    await answer(a_spec(seed=9), sessions, connection)
    assert json.loads(connection.sent)["choices"][0]["message"]["content"] == "hi"
    assert (connection.status, connection.is_ended) == (200, True)
    (request,) = sessions.requests
    assert (request.sampling.seed, request.end_tokens, request.vocabulary_size) == (9, (257,), 260)


async def test_streamed() -> None:
    sessions, connection = Sessions(), Connection()
    await answer(a_spec(stream=True), sessions, connection)
    assert connection.sent.endswith(b"data: [DONE]\n\n")
    assert (connection.status, connection.is_ended) == (200, True)
    assert sessions.session.closed[0] == "finished"


async def test_a_seed_is_drawn_anew_for_every_request() -> None:
    seeds = set()
    for _ in range(3):
        sessions = Sessions()
        await answer(a_spec(), sessions, Connection())
        seeds.add(sessions.requests[0].sampling.seed)
    assert len(seeds) == 3


@pytest.mark.parametrize(
    ("spec", "phase", "code"),
    [
        (a_spec("nothing"), WorkerPhase.SERVING, "model_not_found"),
        (a_spec(), WorkerPhase.STARTED, "not_ready"),
        (a_spec(max_tokens=5000), WorkerPhase.SERVING, "context_length_exceeded"),
    ],
)
async def test_what_is_refused_opens_nothing(spec: GenerationSpec, phase: WorkerPhase, code: str) -> None:
    sessions, connection = Sessions(), Connection()
    with pytest.raises(MeshnetError) as caught:
        await answer(spec, sessions, connection, phase)
    assert (caught.value.code, sessions.requests, connection.status) == (code, [], 0)


async def test_tokenising_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def for_ever(*_: object) -> tuple[int, ...]:
        await asyncio.Event().wait()
        return ()

    monkeypatch.setattr(ServedModel, "tokenise", for_ever)
    with pytest.raises(MeshnetError, match="node_busy"):
        await answer(a_spec(), Sessions(), Connection(), tokenise_timeout_s=0.05)


@pytest.mark.parametrize(
    ("code", "status", "error_type"),
    [
        ("too_many_sessions", 429, "requests"),
        ("kv_exhausted", 429, "requests"),
        ("not_ready", 503, "server_error"),
    ],
)
async def test_a_worker_without_a_place_is_told_as_clients_know_it(code: str, status: int, error_type: str) -> None:
    connection = Connection()
    with pytest.raises(MeshnetError) as caught:
        await answer(a_spec(), Sessions(refusal=StageRefusedError(code, "no")), connection)
    reply = describe_error(caught.value)
    assert (reply.status, reply.body.error.type, reply.body.error.code) == (status, error_type, code)
    assert connection.status == 0


async def test_a_failure_of_a_whole_answer_is_the_requests() -> None:
    sessions, connection = Sessions(Recited([], LocalRouteError("engine_failed", "failed"))), Connection()
    with pytest.raises(MeshnetError, match="engine_failed"):
        await answer(a_spec(), sessions, connection)
    assert connection.status == 0
    assert sessions.session.closed[0] == "engine_failed"


@pytest.mark.parametrize("parts", [0, 1, 2])
async def test_a_client_that_leaves_closes_the_session(parts: int) -> None:
    sessions, connection = Sessions(), Connection(patience=parts)
    with pytest.raises(ClientGoneError):
        await answer(a_spec(stream=True), sessions, connection)
    assert not connection.is_ended
    assert sessions.session.closed


async def test_an_answer_that_is_cancelled_closes_the_session() -> None:
    sessions = Sessions(Recited([]))  # never says anything
    working = asyncio.create_task(answer(a_spec(stream=True), sessions, connection := Connection()))
    async with asyncio.timeout(5):
        await connection.has_sent.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert working.cancelled()
    assert sessions.session.closed == ["over"]
