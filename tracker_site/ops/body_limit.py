"""Limits the body of a request while Daphne receives it.

Daphne reads the whole body of a request before the application sees the request, without any limit: a body with a
declared length goes to a file, a chunked one stays in memory. Here a request is refused at its header if the declared
length is too large, and otherwise as soon as the body grows too large; the rest of the body is discarded.

Invariants: at most `BODY_MAX_BYTES` of a body are kept. A refused request gets one answer, and its connection is closed
when its body has arrived or after `LINGER_S`; if it were closed at once, the reset could overtake the answer. Importing
Daphne installs Twisted's reactor, so import this module only to make a server.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

from daphne.http_protocol import HTTPFactory, WebRequest
from twisted.internet import reactor

from meshnet.openai.errors import describe_error
from meshnet.openai.http_refusals import BODY_MAX_BYTES, JSON_TYPE, too_large

LINGER_S: Final = 5.0
_clock: Final[Any] = reactor  # Any: the type checker does not understand the zope interfaces of the reactor


def _refusal() -> bytes:
    reply = describe_error(too_large())
    body = reply.body.model_dump_json().encode()
    head = (
        f"HTTP/1.1 {reply.status} Content Too Large\r\nContent-Type: {JSON_TYPE}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


class LimitedRequest(WebRequest):  # type: ignore[misc]  # Daphne has no types
    """A request that is refused if its body is too large; the methods override Twisted's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Twisted's own parameters
        super().__init__(*args, **kwargs)
        self._body_bytes = 0
        self._is_refused = False
        self._lingering: Any = None  # the reactor's delayed call that closes a refused connection
        self.content: Any

    def gotLength(self, length: int | None) -> None:  # noqa: N802
        """Refuse the request if its declared length is too large; `length` is None if the body is chunked."""
        is_too_large = length is not None and length > BODY_MAX_BYTES
        super().gotLength(0 if is_too_large else length)
        if is_too_large:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        """Keep a part of the body; refuse the request if the body grows too large."""
        self._body_bytes += len(data)
        if self._body_bytes > BODY_MAX_BYTES and not self._is_refused:
            self._refuse()
        if not self._is_refused:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        """Pass a complete request on; if it was refused, close its connection."""
        if self._is_refused:
            self.channel.loseConnection()
        else:
            super().requestReceived(command, path, version)

    def connectionLost(self, reason: object) -> None:  # noqa: N802
        """Cancel the delayed close of a refused request, because the connection is closed already."""
        if self._lingering is not None and self._lingering.active():
            self._lingering.cancel()
        super().connectionLost(reason)

    def _refuse(self) -> None:
        self._is_refused = True
        self._drop_content()
        # The refusal also answers `Expect: 100-continue`; without this, Twisted would still send "100 Continue".
        self.requestHeaders.removeHeader(b"Expect")
        self.channel.write(_refusal())
        self._lingering = _clock.callLater(LINGER_S, self.channel.loseConnection)

    def _drop_content(self) -> None:
        self.content.close()
        self.content = BytesIO()


class LimitedFactory(HTTPFactory):  # type: ignore[misc]  # Daphne has no types
    """Daphne's factory, which makes requests with limited bodies."""

    def buildProtocol(self, addr: object) -> object:  # noqa: N802 - Twisted's name
        """Make the protocol of one connection."""
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = LimitedRequest
        return protocol
