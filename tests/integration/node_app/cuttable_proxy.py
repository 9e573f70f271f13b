"""A TCP proxy that a test can cut, to lose a connection without losing either end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class CuttableProxy:
    """Passes bytes to `port`; `cut` aborts what is open, `is_open` says whether new connections pass."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.is_open = True
        self.visits = 0
        self.turned_away = 0

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_open:
            self.turned_away += 1
            writer.transport.abort()
            return
        self.visits += 1
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, other_writer}
        try:
            await asyncio.gather(self._pump(reader, other_writer), self._pump(other_reader, writer))
        finally:
            self._writers -= {writer, other_writer}

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def a_cuttable_proxy(port: int) -> AsyncIterator[CuttableProxy]:
    proxy = CuttableProxy(port)
    server = await asyncio.start_server(proxy.visit, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        proxy.cut()
        server.close()
