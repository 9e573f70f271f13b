"""Listens on loopback for one endpoint and serves each connection in a task of its own.

Invariants: the server listens on 127.0.0.1 only. A bounded number of connections is served; as many more are answered
503, and further ones are closed unanswered. Every connection is closed by its task, and none outlives the server.
Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final, Self

from node_app.loopback.access import LOOPBACK
from node_app.loopback.connection import ClientGoneError, HttpConnection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from node_app.loopback.limits import ConnectionLimits

logger = logging.getLogger(__name__)

# Connections that wait to be accepted; the event loop accepts them within moments.
BACKLOG: Final = 32


def bind_loopback(port: int) -> socket.socket:
    """Return a socket that listens on loopback; if `port` is 0, at any free port.

    Raises:
        OSError: the port is taken, or this user may not listen on it.
    """
    return socket.create_server((LOOPBACK, port), backlog=BACKLOG)


class LocalServer:
    """Serves the connections of a listening socket, which it owns, while its `async with` block runs."""

    def __init__(
        self,
        listening: socket.socket,
        serve: Callable[[HttpConnection], Awaitable[None]],
        refuse: Callable[[HttpConnection], Awaitable[None]],
        limits: ConnectionLimits,
    ) -> None:
        """Prepare to serve the connections of a socket.

        Args:
            listening: the socket, made by `bind_loopback`.
            serve: reads and answers the request of a connection; does not close the connection.
            refuse: answers that there are too many connections at once; does not close the connection.
            limits: deadlines and bounds for the clients.
        """
        self._listening = listening
        self._serve = serve
        self._refuse = refuse
        self._limits = limits
        self._server: asyncio.Server | None = None
        self._served: set[asyncio.Task[None]] = set()
        self._refused: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, sock=self._listening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        if self._served:
            await asyncio.wait(set(self._served), timeout=self._limits.end_grace_s)
        left = self._served | self._refused
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_room = len(self._served) < self._limits.connections_max
        handle, tasks = (self._serve, self._served) if has_room else (self._refuse, self._refused)
        connection = HttpConnection(reader, writer, self._limits)
        if len(tasks) >= self._limits.connections_max:
            connection.abort()
            return
        task = asyncio.create_task(self._run(connection, handle), name="loopback")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _run(self, connection: HttpConnection, handle: Callable[[HttpConnection], Awaitable[None]]) -> None:
        try:
            await handle(connection)
            await connection.close()
        except ClientGoneError as error:
            logger.debug("a local client: %s", error)
            connection.abort()
        except BaseException:
            connection.abort()
            raise
