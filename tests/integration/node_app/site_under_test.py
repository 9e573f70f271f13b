"""A site small enough for a test: enrolment over HTTP, and the control socket driven by the real site's own machine.

Front door: one port, as a node sees it. A POST is answered here; everything else is passed on to the WebSocket server.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from meshnet.golden.probe import write_golden
from meshnet.v1 import control_pb2
from tests.integration.tracker_site.relay.process import SITE_KEY
from tracker_site.control_plane.control_events import Ended, HelloProven, Opened, OpenFailed, OpenRequest, Reported
from tracker_site.control_plane.node_connection import ConnectionTerms, NodeConnection
from tracker_site.nodes.refusals import ControlRefusalCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from meshnet.golden.probe import GoldenProbe
    from meshnet.ids import SessionKey
    from tracker_site.nodes.reports import Report

DEADLINE_S = 20.0
TICK_S = 0.1
GOOD_TOKEN = "a-good-token"


@dataclass
class ConnectedNode:
    """One node's control connection, as the site sees it."""

    link: NodeConnection
    socket: ServerConnection
    node_id: str = ""
    report: Report | None = None
    listed: frozenset[SessionKey] = frozenset()
    answers: dict[str, asyncio.Future[Opened | OpenFailed]] = field(default_factory=dict)

    async def flush(self) -> None:
        for data in self.link.messages_to_send():
            await self.socket.send(data)
        if self.link.is_closed:
            await self.socket.close()


@dataclass
class Site:
    """What a test looks at and steers.

    Attributes:
        nodes: enrolled public keys and their node ids. Survives a restart when given to the next site.
        keep: sessions a reconnecting node shall keep.
        earned_micros: told with every stored report, where it is given.
        golden: of the one model there is; None: the site has none.
        golden_status: HTTP status of every answer about it, where it is not 200.
        golden_asked: times that nodes asked.
        heard: every event of every connection, in order, with the monotonic time.
    """

    relay_url: str
    nodes: dict[bytes, str] = field(default_factory=dict)
    keep: frozenset[SessionKey] = frozenset()
    port: int = 0
    earned_micros: int | None = None
    connections: dict[str, ConnectedNode] = field(default_factory=dict)
    ended: list[tuple[float, Ended]] = field(default_factory=list)
    golden: GoldenProbe | None = None
    golden_status: int = 200
    golden_asked: list[float] = field(default_factory=list)
    enrolments: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def wait_until(self, is_so: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
        async with asyncio.timeout(deadline_s), self.changed:
            await self.changed.wait_for(is_so)

    def report_of(self, node_id: str) -> Report | None:
        connection = self.connections.get(node_id)
        return None if connection is None else connection.report

    async def wait_for_state(self, node_id: str, state: str) -> Report:
        """Wait for a report of `state` with the relay connected (where it serves)."""

        def is_so() -> bool:
            report = self.report_of(node_id)
            return report is not None and report.state == state and (state != "serving" or report.reach.data_connected)

        await self.wait_until(is_so)
        report = self.report_of(node_id)
        assert report is not None
        return report

    async def open_stage(self, node_id: str, request: control_pb2.OpenStage) -> Opened | OpenFailed:
        connection = self.connections[node_id]
        channel = os.urandom(4).hex()
        answer = connection.answers[channel] = asyncio.get_running_loop().create_future()
        connection.link.open_stage(OpenRequest(request, channel, "", 10.0), time.monotonic())
        await connection.flush()
        return await asyncio.wait_for(answer, DEADLINE_S)

    async def close_stage(self, node_id: str, key: SessionKey) -> None:
        connection = self.connections[node_id]
        connection.link.close_stage(key, "the test is done")
        await connection.flush()

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    # One control connection

    async def hold(self, socket: ServerConnection) -> None:
        terms = ConnectionTerms(os.urandom(32), 500, 5000, 5.0, self.relay_url, SITE_KEY.public_key)
        connection = ConnectedNode(NodeConnection(terms, time.monotonic()), socket)
        ticking = asyncio.create_task(self._tick(connection))
        try:
            await connection.flush()
            async for data in socket:
                connection.link.receive(data if isinstance(data, bytes) else b"", time.monotonic())
                await self._settle(connection)
        except ConnectionClosed:
            pass
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)
            connection.link.connection_lost()
            await self._settle(connection)
            if self.connections.get(connection.node_id) is connection:
                del self.connections[connection.node_id]
            await self._tell()

    async def _tick(self, connection: ConnectedNode) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            connection.link.tick(time.monotonic())
            await self._settle(connection)

    async def _settle(self, connection: ConnectedNode) -> None:
        for event in connection.link.events():
            match event:
                case HelloProven(public_key, _, open_sessions):
                    self._identify(connection, public_key, open_sessions)
                case Reported(report):
                    connection.report = report
                    connection.link.report_stored(report.report_id, self.earned_micros)
                case Opened(request) | OpenFailed(request):
                    connection.answers.pop(request.answer_channel).set_result(event)
                case Ended():
                    self.ended.append((time.monotonic(), event))
        with suppress(ConnectionClosed):
            await connection.flush()
        await self._tell()

    def _identify(self, connection: ConnectedNode, key: bytes, listed: frozenset[SessionKey]) -> None:
        node_id = self.nodes.get(key)
        if node_id is None:
            connection.link.refuse(ControlRefusalCode.UNKNOWN_NODE, "nobody enrolled this key")
            return
        connection.node_id, connection.listed = node_id, listed
        connection.link.identified(node_id, self.keep & listed, time.monotonic())
        self.connections[node_id] = connection

    # Enrolment

    def enrol(self, body: bytes) -> tuple[HTTPStatus, dict[str, object]]:
        self.enrolments += 1
        request = json.loads(body)
        if request["token"] != GOOD_TOKEN:
            return HTTPStatus.UNAUTHORIZED, {"error": {"code": "bad_token", "message": "this token is not valid"}}
        key = bytes.fromhex(request["public_key"])
        node_id = self.nodes.setdefault(key, f"node-{len(self.nodes)}")
        return HTTPStatus.CREATED, {"node_id": node_id}

    # Golden rows

    def golden_answer(self) -> tuple[int, bytes]:
        """The whole probe, of which a node takes what it needs."""
        self.golden_asked.append(time.monotonic())
        if self.golden_status != HTTPStatus.OK or self.golden is None:
            return self.golden_status if self.golden_status != HTTPStatus.OK else HTTPStatus.NOT_FOUND, b"{}"
        return HTTPStatus.OK, write_golden(self.golden)


@asynccontextmanager
async def a_site(site: Site) -> AsyncIterator[Site]:
    """Serve `site` on its port (0: a free one, which it then keeps)."""
    async with serve(site.hold, "127.0.0.1", 0, compression=None) as inner:
        inner_port = inner.sockets[0].getsockname()[1]
        visitors: set[asyncio.Task[None]] = set()

        async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            visitors.add(task)
            try:
                await _visit(site, inner_port, reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                visitors.discard(task)
                writer.close()

        front = await asyncio.start_server(visit, "127.0.0.1", site.port)
        site.port = front.sockets[0].getsockname()[1]
        try:
            yield site
        finally:
            front.close()
            for task in list(visitors):
                task.cancel()
            await asyncio.gather(*visitors, return_exceptions=True)


async def _visit(site: Site, inner_port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"POST /api/nodes/enrol "):
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
        status, answer = site.enrol(await reader.readexactly(length))
        body = json.dumps(answer).encode()
        writer.write(f"HTTP/1.1 {status.value} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        return
    if head.startswith(b"GET /api/models/"):
        number, body = site.golden_answer()
        writer.write(f"HTTP/1.1 {int(number)} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        return
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", inner_port)
    inner_writer.write(head)
    pumps = [asyncio.create_task(_pump(reader, inner_writer)), asyncio.create_task(_pump(inner_reader, writer))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        return  # the site goes away; asyncio logs a cancelled visitor as an error
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        inner_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
