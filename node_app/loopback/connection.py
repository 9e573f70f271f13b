"""One HTTP connection on loopback: one request and one answer, whole or streamed.

h11 parses and writes HTTP/1.1. This module adds deadlines for the head, for the body and for a client that does not
read, and notices if a client leaves.

Invariants: no more of a request is held in memory than the limits allow. Every write waits until the transport's buffer
has room again, so a slow client makes the node hold little more than that buffer. A connection serves one request; the
code that created it closes it. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import h11

from node_app.loopback.refusals import Reason, RequestRefusedError

if TYPE_CHECKING:
    from node_app.loopback.limits import ConnectionLimits

READ_BYTES: Final = 16 * 1024

Headers = list[tuple[str, str]]


class ClientGoneError(Exception):
    """The client left or does not read, so it cannot be answered."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request. `target` is as the client sent it; header names are in lower case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        """Return the values of all headers called `name`, which is in lower case."""
        return [value for key, value in self.headers if key == name]

    def value(self, name: str) -> str:
        """Return the value of the first header called `name`; empty if there is none."""
        return next(iter(self.values(name)), "")


class HttpConnection:
    """One connection. Call `read_head`, `read_body`, then `answer` (or `begin`, `send` and `end`), and last `close`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_max_bytes)
        self._received_bytes = 0
        self._is_head = False

    @property
    def is_answered(self) -> bool:
        """Whether an answer has begun."""
        return self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}

    async def read_head(self) -> Head:
        """Return the request's head.

        Raises:
            RequestRefusedError: the head is malformed or too long.
            ClientGoneError: no head came in time, or the client left.
        """
        try:
            async with asyncio.timeout(self._limits.head_timeout_s):
                event = await self._next_event()
        except TimeoutError as error:
            raise ClientGoneError("sent no request in time") from error
        if not isinstance(event, h11.Request):
            raise ClientGoneError("left without a request")
        self._is_head = event.method == b"HEAD"
        # h11 checks its limit only while it waits for the rest of a head, so a head that came at once is checked here.
        if self._received_bytes - len(self._http.trailing_data[0]) > self._limits.head_max_bytes:
            raise _head_too_large()
        headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers)
        return Head(event.method.decode("ascii"), event.target.decode("ascii"), headers)

    async def read_body(self, head: Head) -> bytes:
        """Return the request's whole body.

        Raises:
            RequestRefusedError: 413: the body is too large; 408: it did not come in time; 400: it is malformed.
            ClientGoneError: the client left.
        """
        if int(head.value("content-length") or 0) > self._limits.body_max_bytes:  # h11 has checked it
            raise _body_too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                while not isinstance(event := await self._next_event(), h11.EndOfMessage):
                    if not isinstance(event, h11.Data):
                        raise ClientGoneError("left before the end of the body")
                    body += event.data
                    if len(body) > self._limits.body_max_bytes:
                        raise _body_too_large()
        except TimeoutError as error:
            raise RequestRefusedError(Reason.BODY_OVERDUE, HTTPStatus.REQUEST_TIMEOUT) from error
        return bytes(body)

    async def gone(self) -> None:
        """Return as soon as the client has closed its side of the connection or sent more than `linger_max_bytes`.

        Bytes that it sends after its request are dropped. Call it only after the request was read.
        """
        dropped_bytes = 0
        while dropped_bytes <= self._limits.linger_max_bytes:
            try:
                data = await self._reader.read(READ_BYTES)
            except ConnectionError:
                return
            if not data:
                return
            dropped_bytes += len(data)

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer.

        Raises:
            ClientGoneError: the client left or does not read.
        """
        await self.begin(status, [*headers, ("Content-Length", str(len(body)))])
        if not self._is_head:
            await self.send(body)
        await self.end()

    async def begin(self, status: int, headers: Headers) -> None:
        """Send an answer's status line and headers; raises ClientGoneError if the client left or does not read."""
        fixed = [("Connection", "close"), ("X-Content-Type-Options", "nosniff")]
        reason = HTTPStatus(status).phrase
        await self._write(h11.Response(status_code=status, headers=[*headers, *fixed], reason=reason))

    async def send(self, data: bytes) -> None:
        """Send a part of the answer's body and wait for room in the buffer; raises ClientGoneError as `begin` does."""
        await self._write(h11.Data(data=data))

    async def end(self) -> None:
        """End the answer; raises ClientGoneError as `begin` does."""
        await self._write(h11.EndOfMessage())

    async def close(self) -> None:
        """Close the connection; a client that is still sending first gets `linger_s` to read the answer. Idempotent."""
        if self.is_answered and self._http.their_state in {h11.IDLE, h11.SEND_BODY, h11.ERROR}:
            await self._linger()
        self._writer.close()

    def abort(self) -> None:
        """Close the connection at once, dropping bytes that were not sent yet. Idempotent."""
        self._writer.transport.abort()

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(self._limits.linger_s):
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                await self.gone()
        except (TimeoutError, ConnectionError, OSError):
            return

    async def _next_event(self) -> h11.Event:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                data = await self._reader.read(READ_BYTES)
                self._received_bytes += len(data)
                self._http.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise _not_http(error) from error
        except ConnectionError as error:
            raise ClientGoneError("the connection broke") from error
        if isinstance(event, h11.Event):
            return event
        raise ClientGoneError("sent more than one request")

    async def _write(self, event: h11.Event) -> None:
        try:
            self._writer.write(self._http.send(event) or b"")
            async with asyncio.timeout(self._limits.stall_s):
                await self._writer.drain()
        except TimeoutError as error:
            self.abort()
            raise ClientGoneError(f"read nothing for {self._limits.stall_s:g} s") from error
        except ConnectionError as error:
            raise ClientGoneError("the connection broke") from error


def _not_http(error: h11.RemoteProtocolError) -> RequestRefusedError:
    """Return the refusal with h11's status (400, 431 or 501) but without h11's text, which may quote the request."""
    status = HTTPStatus(error.error_status_hint)
    if status is HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        return _head_too_large()
    return RequestRefusedError(Reason.NOT_HTTP, status)


def _head_too_large() -> RequestRefusedError:
    return RequestRefusedError(Reason.HEAD_TOO_LARGE, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)


def _body_too_large() -> RequestRefusedError:
    return RequestRefusedError(Reason.BODY_TOO_LARGE, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
