"""A Daphne that takes no body beyond the limit.

Daphne reads a request's whole body before the application sees the request: declared bodies go to a file, chunked ones
stay in memory, and neither has an end. Here a body that is declared too large is refused by its header, and one that
grows too large when it does; what still comes of it is thrown away.

Invariants: never more than `BODY_MAX_BYTES` of a body are kept; a refused request gets one answer and its connection is
closed, once its body has come or after `LINGER_S` (closing at once would reset the connection under an answer that is
still on its way). Importing Daphne installs Twisted's reactor: import this module only where a server is made.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

from daphne.http_protocol import HTTPFactory, WebRequest
from twisted.internet import reactor

from meshnet.openai.errors import describe_error
from meshnet.openai.http_refusals import BODY_MAX_BYTES, JSON_TYPE, too_large

LINGER_S: Final = 5.0
_clock: Final[Any] = reactor  # its interfaces are zope's, which the type checker cannot follow


def _refusal() -> bytes:
    reply = describe_error(too_large())
    body = reply.body.model_dump_json().encode()
    head = (
        f"HTTP/1.1 {reply.status} Content Too Large\r\nContent-Type: {JSON_TYPE}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


class LimitedRequest(WebRequest):  # type: ignore[misc]  # Daphne has no types
    """A request that is refused while its body is being received; the names are Twisted's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Twisted's own parameters
        super().__init__(*args, **kwargs)
        self._body_bytes = 0
        self._is_refused = False
        self._lingering: Any = None  # a delayed call of the reactor's
        self.content: Any

    def gotLength(self, length: int | None) -> None:  # noqa: N802
        """The head is read; `length` is None for a chunked body."""
        is_too_large = length is not None and length > BODY_MAX_BYTES
        super().gotLength(0 if is_too_large else length)
        if is_too_large:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        """A part of the body."""
        self._body_bytes += len(data)
        if self._body_bytes > BODY_MAX_BYTES and not self._is_refused:
            self._refuse()
        if not self._is_refused:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        """The body is complete."""
        if self._is_refused:
            self.channel.loseConnection()
        else:
            super().requestReceived(command, path, version)

    def connectionLost(self, reason: object) -> None:  # noqa: N802
        """The client is gone."""
        if self._lingering is not None and self._lingering.active():
            self._lingering.cancel()
        super().connectionLost(reason)

    def _refuse(self) -> None:
        self._is_refused = True
        self._drop_content()
        # A client that asked whether to go on has its answer.
        self.requestHeaders.removeHeader(b"Expect")
        self.channel.write(_refusal())
        self._lingering = _clock.callLater(LINGER_S, self.channel.loseConnection)

    def _drop_content(self) -> None:
        self.content.close()
        self.content = BytesIO()


class LimitedFactory(HTTPFactory):  # type: ignore[misc]  # Daphne has no types
    """Daphne's factory, with limited requests."""

    def buildProtocol(self, addr: object) -> object:  # noqa: N802 - Twisted's name
        """Make one connection's protocol."""
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = LimitedRequest
        return protocol
