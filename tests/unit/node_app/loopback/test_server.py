"""Connections over real loopback sockets: what is refused, what is bounded, and what a client sees of it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from node_app.loopback.connection import ClientGoneError, Head, HttpConnection
from node_app.loopback.limits import ConnectionLimits
from node_app.loopback.refusals import RequestRefusedError
from node_app.loopback.server import LocalServer, bind_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

DEADLINE_S = 5.0
BODY_MAX_BYTES = 4 * 1024 * 1024
HOST = b"Host: 127.0.0.1\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


class Recorder:
    """Answers every request with its body's length, and records what it saw."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.errors: list[Exception] = []
        self.left = asyncio.Event()

    async def serve(self, connection: HttpConnection) -> None:
        try:
            self.heads.append(await connection.read_head())
            body = await connection.read_body(self.heads[-1])
        except RequestRefusedError as error:
            self.errors.append(error)
            await connection.answer(error.status, [], error.reason.name.encode())
        except ClientGoneError as error:
            self.errors.append(error)
            raise
        else:
            await connection.answer(200, [], b"%d bytes" % len(body))

    async def hold(self, connection: HttpConnection) -> None:
        """Serve until the client leaves."""
        await connection.read_head()
        await connection.gone()
        self.left.set()

    async def flood(self, connection: HttpConnection) -> None:
        """Stream without end."""
        await connection.read_head()
        await connection.begin(200, [])
        try:
            while True:
                await connection.send(bytes(64 * 1024))
        except ClientGoneError as error:
            self.errors.append(error)
            self.left.set()
            raise


async def refuse(connection: HttpConnection) -> None:
    await connection.answer(503, [], b"busy")


@asynccontextmanager
async def a_server(
    handle: Callable[[HttpConnection], Awaitable[None]], limits: ConnectionLimits | None = None
) -> AsyncIterator[int]:
    listening = bind_loopback(0)
    port: int = listening.getsockname()[1]
    limits = limits or ConnectionLimits(body_max_bytes=BODY_MAX_BYTES)
    async with asyncio.timeout(DEADLINE_S), LocalServer(listening, handle, refuse, limits):
        yield port


async def exchange(port: int, request: bytes) -> bytes:
    """Send bytes and read the answer to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_bytes", "status", "said"),
    [
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc", b"200 OK", b"3 bytes"),
        (
            b"POST / HTTP/1.1\r\n" + HOST + CHUNKED + b"2\r\nab\r\n0\r\n\r\n",
            b"200 OK",
            b"2 bytes",
        ),
        (b"GET / HTTP/1.0\r\n\r\n", b"200 OK", b"0 bytes"),
        (b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n", b"200 OK", b"Content-Length: 7\r\n"),
        (b"nonsense\r\n\r\n", b"400 Bad Request", b"NOT_HTTP"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request", b"NOT_HTTP"),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", b"400 Bad Request", b"NOT_HTTP"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", b"400 Bad Request", b"NOT_HTTP"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5000000\r\n\r\n", b"413", b"BODY_TOO_LARGE"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Filler: " + b"x" * 60_000 + b"\r\n\r\n", b"431", b"HEAD_TOO_LARGE"),
        (b"POST / HTTP/1.1\r\n" + HOST + CHUNKED + b"zz\r\n", b"400 Bad Request", b"NOT_HTTP"),
    ],
)
async def test_a_request_is_answered_or_refused(request_bytes: bytes, status: bytes, said: bytes) -> None:
    async with a_server(Recorder().serve) as port:
        answer = await exchange(port, request_bytes)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert said in answer
    assert b"Connection: close\r\n" in answer


async def test_a_body_that_waits_to_be_asked_for_is_asked_for() -> None:
    async with a_server(Recorder().serve) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(b"ab")
        assert (await reader.read()).endswith(b"2 bytes")
        writer.close()


async def test_a_refused_sender_sees_its_refusal() -> None:
    async with a_server(Recorder().serve) as port:
        body = bytes(6 * 1024 * 1024)
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + body)
        await writer.drain()
        assert b"BODY_TOO_LARGE" in await reader.read()
        writer.close()


async def test_a_head_or_a_body_that_does_not_come_ends_in_time() -> None:
    recorder = Recorder()
    async with a_server(
        recorder.serve, ConnectionLimits(head_timeout_s=0.1, body_max_bytes=3, body_timeout_s=0.1)
    ) as port:
        assert await exchange(port, b"") == b""
        assert await exchange(port, b"GET / HTTP/1.1\r\n") == b""
        late = await exchange(port, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\na")
    assert late.startswith(b"HTTP/1.1 408 ")
    assert [type(error) for error in recorder.errors] == [ClientGoneError, ClientGoneError, RequestRefusedError]


async def test_a_client_that_leaves_is_noticed() -> None:
    recorder = Recorder()
    async with a_server(recorder.hold) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\nsomething more")
        await writer.drain()
        assert not recorder.left.is_set()
        writer.close()
        await recorder.left.wait()


async def test_a_client_that_does_not_read_is_cut() -> None:
    recorder = Recorder()
    async with a_server(recorder.flood, ConnectionLimits(stall_s=0.2)) as port:
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        await recorder.left.wait()
        client.close()
    assert "read nothing" in str(recorder.errors[0])


async def test_connections_are_bounded() -> None:
    recorder = Recorder()
    async with a_server(recorder.hold, ConnectionLimits(connections_max=3)) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert (await exchange(port, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")).endswith(b"busy")
        for _, writer in held:
            writer.close()
        while True:  # until the places are free again
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            try:
                async with asyncio.timeout(0.1):
                    assert (await reader.read()).endswith(b"busy")
            except TimeoutError:
                break  # it is being served
            finally:
                writer.close()


async def test_the_end_of_the_server_ends_its_connections() -> None:
    async with a_server(Recorder().hold, ConnectionLimits(end_grace_s=0.1)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0)
    assert await reader.read() == b""  # cut
    writer.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "loopback"]


@pytest.mark.parametrize("is_in_one_piece", [True, False])
@pytest.mark.parametrize(("head_bytes", "status"), [(1000, b"200"), (1001, b"431")])
async def test_a_head_is_bounded_to_the_byte(*, is_in_one_piece: bool, head_bytes: int, status: bytes) -> None:
    start, end = b"GET / HTTP/1.1\r\n" + HOST + b"Filler: ", b"\r\n\r\n"
    head = start + b"x" * (head_bytes - len(start) - len(end)) + end
    async with a_server(Recorder().serve, ConnectionLimits(head_max_bytes=1000)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if not is_in_one_piece:
            writer.write(head[:-1])
            await asyncio.sleep(0.01)
            head = head[-1:]
        writer.write(head)
        assert (await reader.read()).startswith(b"HTTP/1.1 " + status)
        writer.close()


async def test_what_follows_a_head_is_no_part_of_it() -> None:
    body = bytes(2000)
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body)
    async with a_server(Recorder().serve, ConnectionLimits(head_max_bytes=1000, body_max_bytes=2000)) as port:
        assert (await exchange(port, head + body)).endswith(b"2000 bytes")


async def test_a_port_that_is_taken_is_told() -> None:
    with bind_loopback(0) as taken, pytest.raises(OSError, match="in use"):
        bind_loopback(taken.getsockname()[1])


def test_only_loopback_is_bound() -> None:
    with bind_loopback(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
