"""The status endpoint over raw sockets: what is answered, what is refused, and what is bounded."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from node_app.agent.state import AgentState
from node_app.loopback import status_server
from node_app.loopback.limits import ConnectionLimits
from node_app.loopback.status_server import STATUS_LIMITS, StatusServer
from node_app.settings import Carrier
from node_app.status.agent_status import parse_status
from node_app.status.local_address import ADDRESS_FILE, AgentAddress, read_address
from tests.unit.node_app.loopback.openai.stand_ins import a_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from node_app.agent.agent import Agent
    from node_app.system.logs import RecentLines

DEADLINE_S = 10.0


class Levers:
    """An agent as far as the endpoint looks at it; `pulled` lists the levers."""

    def __init__(self, state_dir: Path) -> None:
        self.pulled: list[str] = []
        self.state = AgentState()
        self.worker = SimpleNamespace(status=None)
        self.sessions = SimpleNamespace(keys=frozenset, local={}, bridging=SimpleNamespace(tokens_per_s=0.0))
        self.settings = SimpleNamespace(state_dir=state_dir, name="attic", site_url="", carrier=Carrier.AUTO)

    def pause(self, *, is_paused: bool) -> None:
        self.pulled.append("pause" if is_paused else "resume")

    def quit(self) -> None:
        self.pulled.append("quit")


class Served:
    """A running endpoint and its client."""

    def __init__(self, levers: Levers, address: AgentAddress) -> None:
        self.levers = levers
        self.address = address
        self.port = int(address.url.rpartition(":")[2])
        self.host = b"Host: 127.0.0.1:%d\r\n" % self.port
        self.token = b"Authorization: Bearer %s\r\n" % address.token.encode()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def exchange(self, request: bytes, *, is_end: bool = False) -> bytes:
        """Send bytes, and the end of them if asked; return the answer."""
        reader, writer = await self.connect()
        writer.write(request)
        if is_end:
            writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    async def ask(self, line: bytes, headers: bytes | None = None) -> tuple[int, dict[str, Any]]:
        """Ask; return the status and the JSON body. `headers`: in place of the right ones."""
        given = self.host + self.token if headers is None else headers
        return parse(await self.exchange(line + b" HTTP/1.1\r\n" + given + b"\r\n"))


def parse(answer: bytes) -> tuple[int, dict[str, Any]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


@asynccontextmanager
async def served(state_dir: Path) -> AsyncIterator[Served]:
    levers = Levers(state_dir)
    recent = cast("RecentLines", SimpleNamespace(tail=lambda: ["a line"]))
    server = StatusServer(cast("Agent", levers), a_model(), recent, "http://127.0.0.1:1/v1")
    async with asyncio.timeout(DEADLINE_S), server:
        address = read_address(state_dir)
        assert address is not None
        yield Served(levers, address)


async def test_the_address_stands_while_it_serves(tmp_path: Path) -> None:
    async with served(tmp_path):
        assert (tmp_path / ADDRESS_FILE).stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / ADDRESS_FILE).exists()


async def test_the_status_is_one_that_the_tray_reads(tmp_path: Path) -> None:
    async with served(tmp_path) as one:
        answer = await one.exchange(b"GET /status HTTP/1.1\r\n" + one.host + one.token + b"\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    for line in (b"Content-Type: application/json", b"Connection: close", b"Cache-Control: no-store"):
        assert line in head.splitlines()
    assert b"Content-Length: %d" % len(body) in head.splitlines()
    assert parse_status(body).name == "attic"


async def test_the_levers_and_the_log(tmp_path: Path) -> None:
    async with served(tmp_path) as one:
        assert await one.ask(b"GET /log") == (200, {"lines": ["a line"]})
        for lever in ("pause", "resume", "quit"):
            status, body = await one.ask(b"POST /%s" % lever.encode())
            assert (status, body["name"]) == (200, "attic")
        assert one.levers.pulled == ["pause", "resume", "quit"]


async def test_a_request_of_http_1_0_is_served(tmp_path: Path) -> None:
    async with served(tmp_path) as one:
        answer = await one.exchange(b"GET /log HTTP/1.0\r\n" + one.host + one.token + b"\r\n")
        assert parse(answer) == (200, {"lines": ["a line"]})


HTTP, DUPLICATE = "this is not an HTTP request", "duplicate header"
NOT_OFFERED = "this endpoint takes GET and POST of a path only"
NO_BODY, TOO_LONG = "requests must not have a body", "the head is too long"


@pytest.mark.parametrize(
    ("line", "extra", "status", "told"),
    [
        (b"", b"", 400, HTTP),
        (b"\r\n", b"", 400, HTTP),
        (b"GET /status", b"", 400, HTTP),
        (b"GET /status HTTP/2", b"", 400, HTTP),
        (b"GET  /status HTTP/1.1", b"", 400, HTTP),
        (b"GET /status\xff HTTP/1.1", b"", 400, HTTP),
        (b"G\x00T /status HTTP/1.1", b"", 400, HTTP),
        (b"DELETE /status HTTP/1.1", b"", 400, NOT_OFFERED),
        (b"PUT /status HTTP/1.1", b"", 400, NOT_OFFERED),
        (b"get /status HTTP/1.1", b"", 400, NOT_OFFERED),
        (b"GET status HTTP/1.1", b"", 400, NOT_OFFERED),
        (b"GET http://127.0.0.1/status HTTP/1.1", b"", 400, NOT_OFFERED),
        (b"GET /status HTTP/1.1", b"no colon\r\n", 400, HTTP),
        (b"GET /status HTTP/1.1", b": no name\r\n", 400, HTTP),
        (b"GET /status HTTP/1.1", b"A : 1\r\n", 400, HTTP),
        (b"GET /status HTTP/1.1", b"A: \x00\r\n", 400, HTTP),
        (b"GET /status HTTP/1.1", b"A: 1\r\na: 2\r\n", 400, DUPLICATE),
        (b"GET /status HTTP/1.1", b"Host: evil.example\r\n", 400, HTTP),
        (b"GET /status HTTP/1.1", b"Authorization: Bearer no\r\n", 400, DUPLICATE),
        (b"GET /status HTTP/1.1", b"Content-Length: 5\r\n", 413, NO_BODY),
        (b"POST /quit HTTP/1.1", b"Content-Length: 5\r\n\r\nhello", 413, NO_BODY),
        (b"POST /quit HTTP/1.1", b"Content-Length: 99999999999999999999\r\n", 413, NO_BODY),
        (b"POST /quit HTTP/1.1", b"Content-Length: -1\r\n", 400, HTTP),
        (b"POST /quit HTTP/1.1", b"Content-Length: 0\r\nContent-Length: 5\r\n", 400, HTTP),
        (b"POST /quit HTTP/1.1", b"Transfer-Encoding: chunked\r\n", 413, NO_BODY),
        (b"POST /quit HTTP/1.1", b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", 413, NO_BODY),
        (b"POST /quit HTTP/1.1", b"Transfer-Encoding: gzip\r\n", 501, HTTP),
        (b"GET /status HTTP/1.1", b"".join(b"h%d: 1\r\n" % number for number in range(63)), 431, "too many headers"),
        (b"GET /status HTTP/1.1", b"Filler: " + b"x" * 9000 + b"\r\n", 431, TOO_LONG),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1", b"", 431, TOO_LONG),
        (b"GET /" + b"x" * 90_000, b"", 431, TOO_LONG),
    ],
)
async def test_anything_else_than_a_bare_request_is_refused(
    tmp_path: Path, line: bytes, extra: bytes, status: int, told: str
) -> None:
    async with served(tmp_path) as one:
        answer = await one.exchange(line + b"\r\n" + one.host + one.token + extra + b"\r\n")
        assert parse(answer) == (status, {"error": told})
        assert one.levers.pulled == []


@pytest.mark.parametrize(("extra", "status"), [(b"", b"400"), (b"Filler: " + b"x" * 9000 + b"\r\n", b"431")])
async def test_a_head_method_is_refused_without_a_body(tmp_path: Path, extra: bytes, status: bytes) -> None:
    async with served(tmp_path) as one:
        answer = await one.exchange(b"HEAD /status HTTP/1.1\r\n" + one.host + one.token + extra + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 %s " % status)
        assert answer.endswith(b"\r\n\r\n")


async def test_a_request_that_is_cut_off_is_told(tmp_path: Path) -> None:
    async with served(tmp_path) as one:
        assert parse(await one.exchange(b"GET /sta", is_end=True)) == (400, {"error": HTTP})
        assert await one.exchange(b"", is_end=True) == b""


async def test_the_first_of_two_requests_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as one:
        request = b" HTTP/1.1\r\n" + one.host + one.token + b"\r\n"
        answer = await one.exchange(b"GET /log" + request + b"POST /quit" + request)
        assert parse(answer) == (200, {"lines": ["a line"]})
        assert one.levers.pulled == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}"], ids=["number", "name", "any case"]
)
@pytest.mark.parametrize("origin", ["", "Origin: http://127.0.0.1:{port}\r\n", "Origin: http://localhost:{port}\r\n"])
async def test_programs_with_the_token_pass(tmp_path: Path, host: str, origin: str) -> None:
    async with served(tmp_path) as one:
        headers = f"Host: {host}\r\n{origin}".format(port=one.port).encode()
        assert (await one.ask(b"GET /status", headers + one.token))[0] == 200


OTHER_HOST, OTHER_ORIGIN = "the Host header must name this endpoint", "web pages of other origins are not served"
NO_TOKEN = "wrong token"
HERE = "Host: 127.0.0.1:{port}\r\n"
TOKEN = "Authorization: Bearer {token}\r\n"


@pytest.mark.parametrize(
    ("headers", "status", "told"),
    [
        (TOKEN, 400, HTTP),
        ("Host:\r\n" + TOKEN, 403, OTHER_HOST),
        ("Host: evil.example:{port}\r\n" + TOKEN, 403, OTHER_HOST),
        ("Host: 127.0.0.1:1\r\n" + TOKEN, 403, OTHER_HOST),
        ("Host: 127.0.0.1\r\n" + TOKEN, 403, OTHER_HOST),
        (HERE + "Origin: http://evil.example\r\n" + TOKEN, 403, OTHER_ORIGIN),
        (HERE + "Origin: null\r\n" + TOKEN, 403, OTHER_ORIGIN),
        (HERE + "Origin:\r\n" + TOKEN, 403, OTHER_ORIGIN),
        (HERE + "Origin: https://127.0.0.1:{port}\r\n" + TOKEN, 403, OTHER_ORIGIN),
        (HERE, 401, NO_TOKEN),
        (HERE + "Authorization:\r\n", 401, NO_TOKEN),
        (HERE + "Authorization: Bearer no\r\n", 401, NO_TOKEN),
        (HERE + "Authorization: Bearer \xe9\r\n", 401, NO_TOKEN),
        (HERE + "Authorization: {token}\r\n", 401, NO_TOKEN),
        (HERE + "Authorization: Basic {token}\r\n", 401, NO_TOKEN),
    ],
)
async def test_everybody_else_is_refused(tmp_path: Path, headers: str, status: int, told: str) -> None:
    async with served(tmp_path) as one:
        given = headers.format(port=one.port, token=one.address.token).encode("latin-1")
        assert await one.ask(b"POST /quit", given) == (status, {"error": told})
        assert one.levers.pulled == []


@pytest.mark.parametrize("line", [b"GET /", b"GET /other", b"GET /quit", b"POST /status", b"GET /status?a=b"])
async def test_anything_else_is_not_there(tmp_path: Path, line: bytes) -> None:
    async with served(tmp_path) as one:
        assert await one.ask(line) == (404, {"error": "there is no such endpoint"})
        assert one.levers.pulled == []


def test_clients_have_five_seconds() -> None:
    assert (STATUS_LIMITS.head_timeout_s, STATUS_LIMITS.stall_s) == (5.0, 5.0)


async def test_a_slow_head_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_server, "STATUS_LIMITS", ConnectionLimits(head_timeout_s=0.1))
    async with served(tmp_path) as one:
        assert await one.exchange(b"") == b""
        assert await one.exchange(b"GET /status HTTP/1.1\r\n" + one.host + one.token) == b""
        reader, writer = await one.connect()
        drips = asyncio.create_task(drip(writer, b"GET /status HTTP/1.1\r\n" + b"A: 1\r\n" * 1000))
        try:
            assert await reader.read() == b""
        except ConnectionError:
            pass  # what it still sends reaches a closed socket
        finally:
            drips.cancel()
            writer.close()


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send a byte now and then: no pause is long."""
    for byte in data:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.01)


async def test_one_connection_too_many_is_told_and_twice_as_many_are_cut(tmp_path: Path) -> None:
    places = STATUS_LIMITS.connections_max
    assert places == 16
    async with served(tmp_path) as one:
        held = [await one.connect() for _ in range(places)]
        refused = [await one.connect() for _ in range(places)]
        for reader, _ in refused:
            assert parse(await reader.read()) == (503, {"error": "too many requests at once"})
        reader, cut = await one.connect()
        assert await reader.read() == b""
        for _, writer in [*held, *refused, (reader, cut)]:
            writer.close()


async def test_a_mistake_of_ours_is_told_without_the_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path) as one:
        one.levers.state = cast("AgentState", None)
        assert await one.ask(b"GET /status") == (500, {"error": "the node failed"})
    assert "AttributeError" in caplog.text
    assert one.address.token not in caplog.text


async def test_no_request_leaves_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "node_app")
    async with served(tmp_path) as one:
        await one.ask(b"GET /secret-path", one.host + one.token)
        await one.exchange(b"GET /secret-path", is_end=True)
        await one.ask(b"GET /status", one.host + b"Authorization: Bearer secret-word\r\n")
        await one.exchange(b"secret-word\r\n\r\n")
    assert "secret" not in caplog.text
