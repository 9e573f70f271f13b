"""The relay's sockets: they pass WebSocket messages to `flow.py`, which decides everything, and write its messages.

Invariants: each member has one reading and one writing task, so no reading waits for a write. Messages that are not yet
written wait in the flow, within its limits. Every task ends with its connection. Payloads are not logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from meshnet.member_events import RelayCode
from tracker_site.relay.flow import Now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request, Response

    from tracker_site.relay.flow import RelayFlow
    from tracker_site.relay.limits import RelayLimits

DATA_PATH = "/data"
# An operator may also write the relay's URL without a path.
_DATA_PATHS = frozenset({DATA_PATH, "/"})
HEALTH_PATH = "/health"
# RFC 6455, 7.4.1: policy violation.
_CLOSE_POLICY = 1008
_TICK_S = 0.5

log = logging.getLogger(__name__)


class RelayServer:
    """Passes messages between WebSocket connections and one `RelayFlow`. All methods run on one event loop."""

    def __init__(self, flow: RelayFlow, limits: RelayLimits) -> None:
        self._flow = flow
        self._limits = limits
        self._ids = count()
        self._wakeups: dict[int, asyncio.Event] = {}

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[Server]:
        """Listen while the context is open, then close every connection. If `port` is 0, a free one is picked."""
        limits = self._limits
        async with (
            serve(
                self._member,
                host,
                port,
                process_request=self._route,
                compression=None,
                # Twice the limit: if a message is somewhat too large, it gets a typed refusal; a larger one is never
                # read.
                max_size=2 * limits.message_max_bytes,
                ping_interval=limits.keepalive_s,
                ping_timeout=limits.keepalive_s,
                server_header=None,
            ) as server,
            asyncio.TaskGroup() as tasks,
        ):
            ticker = tasks.create_task(self._tick_forever())
            try:
                yield server
            finally:
                ticker.cancel()

    def _route(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path in _DATA_PATHS:
            return None
        if request.path == HEALTH_PATH:
            counts = self._flow.counts
            body = {
                "members": self._flow.members,
                "sessions": self._flow.sessions,
                "packets_forwarded": counts.packets_forwarded,
                "bytes_forwarded": counts.bytes_forwarded,
                "packets_refused": counts.packets_refused,
                "binds_refused": counts.binds_refused,
                "sessions_ended": counts.sessions_ended,
                "members_dismissed": counts.members_dismissed,
            }
            return connection.respond(HTTPStatus.OK, json.dumps(body) + "\n")
        return connection.respond(HTTPStatus.NOT_FOUND, f"The relay answers on {DATA_PATH}.\n")

    async def _member(self, connection: ServerConnection) -> None:
        member_id = next(self._ids)
        wakeup = self._wakeups[member_id] = asyncio.Event()
        self._flow.connect(member_id, secrets.token_bytes(32), _now())
        self._wake_writers()
        writer = asyncio.create_task(self._write(member_id, connection, wakeup))
        try:
            await self._read(member_id, connection)
        finally:
            del self._wakeups[member_id]
            self._flow.disconnect(member_id)
            self._wake_writers()
            writer.cancel()
            await asyncio.wait([writer])

    async def _read(self, member_id: int, connection: ServerConnection) -> None:
        try:
            async for message in connection:
                # A text message cannot be valid, so the flow gets bytes without a body and dismisses the member.
                data = message if isinstance(message, bytes) else b""
                self._flow.receive(member_id, data, _now())
                self._wake_writers()
        except ConnectionClosed as closed:
            log.info("member %d left without a closing handshake (%s)", member_id, closed.code)

    async def _write(self, member_id: int, connection: ServerConnection, wakeup: asyncio.Event) -> None:
        try:
            is_welcome = True
            while is_welcome:
                await wakeup.wait()
                wakeup.clear()
                await self._drain(member_id, connection)
                is_welcome = not self._flow.is_dismissed(member_id)
            await connection.close(_CLOSE_POLICY, "dismissed")
        except ConnectionClosed:
            return  # The reading task also sees the closed connection, and removes the member.
        except TimeoutError:
            log.warning("dropped member %d, because it does not read", member_id)
            self._flow.dismiss(member_id, RelayCode.TOO_SLOW, "The member did not read a message in time.")
            self._wake_writers()
            connection.transport.abort()

    async def _drain(self, member_id: int, connection: ServerConnection) -> None:
        while (data := self._flow.take(member_id)) is not None:
            async with asyncio.timeout(self._limits.write_stall_s):
                await connection.send(data)

    def _wake_writers(self) -> None:
        for member_id in self._flow.woken():
            wakeup = self._wakeups.get(member_id)
            if wakeup is not None:
                wakeup.set()

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._flow.tick(_now())
            self._wake_writers()


def _now() -> Now:
    return Now(time.monotonic(), time.time())
