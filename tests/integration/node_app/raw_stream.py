"""A streamed local answer over a bare socket: read a little, or not at all, or left in the middle."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.node_app.local_node import LocalNode

TIMEOUT_S = 20.0


class RawStream:
    """One connection with a request sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.seen = b""

    async def read_until(self, mark: bytes) -> bytes:
        """Read on until `mark` was seen; returns everything so far."""
        async with asyncio.timeout(TIMEOUT_S):
            while mark not in self.seen:
                data = await self._reader.read(4096)
                assert data, f"the answer ended: {self.seen[-300:]!r}"
                self.seen += data
        return self.seen

    async def read_to_end(self) -> bytes:
        async with asyncio.timeout(TIMEOUT_S):
            self.seen += await self._reader.read()
        return self.seen

    @property
    def last_event(self) -> dict[str, Any]:
        """The JSON of the last data event."""
        lines = [line for line in self.seen.splitlines() if line.startswith(b"data: {")]
        event: dict[str, Any] = json.loads(lines[-1].removeprefix(b"data: "))
        return event

    def leave(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def a_raw_stream(local: LocalNode, body: dict[str, Any], *, read_limit: int = 65536) -> AsyncIterator[RawStream]:
    """Send a request; at the end of the context the client leaves. `read_limit`: bytes read ahead at most."""
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{local.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", local.port, limit=read_limit)
    stream = RawStream(reader, writer)
    writer.write(head.encode() + data)
    try:
        yield stream
    finally:
        stream.leave()
