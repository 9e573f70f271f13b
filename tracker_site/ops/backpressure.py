"""A Daphne server whose responses wait for slow clients.

Daphne hands every chunk of a response to Twisted at once, and Twisted buffers all that the client has not read: a
client that stops reading a long stream would cost hundreds of megabytes. Here `send` returns only when the transport
has room again, which stops the producer of the response. Then only the transport's own buffer (64 KiB) and a short
buffer of the kernel fill up. By default the kernel would buffer megabytes, which is minutes of generated text that
nobody reads.

Invariants: only HTTP responses wait. If a client reads nothing for `STALL_S`, its connection is cut. If a connection is
lost, a `send` that waits for it returns. Importing Daphne installs Twisted's reactor, so import this module only to
make a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import weakref
from typing import TYPE_CHECKING, Any, Final

from daphne.server import Server

from tracker_site.ops.body_limit import LimitedFactory

if TYPE_CHECKING:
    from daphne.http_protocol import HTTPFactory, WebRequest

logger = logging.getLogger(__name__)

STALL_S: Final = 60.0
FLUSH_POLL_S: Final = 0.01
# Limit of the bytes in the kernel that are not on their way to the client yet. It does not limit the TCP window, so a
# fast client is not slowed down.
UNSENT_BYTES: Final = 16 * 1024


class Gate:
    """A Twisted push producer that records whether the transport has room. Use it on the reactor's loop."""

    def __init__(self) -> None:
        self._is_open = asyncio.Event()
        self._is_open.set()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Close the gate: the transport's buffer is full."""
        self._is_open.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Open the gate: the transport has room."""
        self._is_open.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Open the gate: the connection is lost, so nobody needs to wait."""
        self._is_open.set()

    async def is_passable(self, timeout_s: float) -> bool:
        """Wait until the transport has room; return False if it has none within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_open.wait()
        except TimeoutError:
            return False
        return True


class BackpressureServer(Server):  # type: ignore[misc]  # Daphne has no types
    """Daphne's server, with two limits: `send` waits for the client to read, and request bodies have a largest size."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Daphne's own parameters
        super().__init__(*args, **kwargs)
        self._gates: dict[WebRequest, Gate] = {}
        self._transports: weakref.WeakSet[Any] = weakref.WeakSet()
        self._factory = LimitedFactory(self)

    @property
    def http_factory(self) -> LimitedFactory:
        """The factory that makes the protocol of each connection."""
        return self._factory

    @http_factory.setter
    def http_factory(self, _daphnes_own: HTTPFactory) -> None:
        """Ignore the factory that Daphne sets when it runs, so that ours stays."""

    async def handle_reply(self, protocol: WebRequest, message: dict[str, Any]) -> None:
        """Send one message of the application, then wait until the transport has room.

        If it has none within STALL_S, the connection is cut.
        """
        kind = message["type"]
        if kind == "http.response.start":
            self._open_gate(protocol)
        elif kind == "http.response.body" and not message.get("more_body", False):
            self._remove_gate(protocol)
        await super().handle_reply(protocol, message)
        gate = self._gates.get(protocol)
        if gate is not None and not await gate.is_passable(STALL_S):
            logger.warning("a client read nothing for %g s; its connection is cut", STALL_S)
            protocol.transport.abortConnection()

    async def flush(self, timeout_s: float) -> None:
        """Close every connection after its client has read the buffered rest of its response, within `timeout_s`.

        Call it before the process ends: bytes in Twisted's buffers would be lost, among them the message that tells a
        client why its answer ended.
        """
        for transport in list(self._transports):
            transport.loseConnection()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                # Twisted reports the end of a connection only to its protocol, so the transports are polled.
                while any(transport.connected for transport in self._transports):  # noqa: ASYNC110
                    await asyncio.sleep(FLUSH_POLL_S)

    def protocol_disconnected(self, protocol: object) -> None:
        """Open and drop the gate of a lost connection, so that a waiting `send` returns."""
        gate = self._gates.pop(protocol, None)
        if gate is not None:
            gate.stopProducing()
        super().protocol_disconnected(protocol)

    def _open_gate(self, protocol: WebRequest) -> None:
        if protocol.channel is not None and protocol not in self._gates:
            self._gates[protocol] = gate = Gate()
            protocol.registerProducer(gate, True)
            self._transports.add(protocol.channel.transport)
            _bound_unsent(protocol.channel.transport.getHandle())

    def _remove_gate(self, protocol: WebRequest) -> None:
        """Unregister the gate before the last chunk, because Twisted cannot finish a request that has a producer."""
        if self._gates.pop(protocol, None) is not None:
            protocol.unregisterProducer()


def _bound_unsent(connection: socket.socket) -> None:
    """Limit the kernel's unsent bytes, if this is a TCP connection and the system can (Windows cannot)."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and connection.family in {socket.AF_INET, socket.AF_INET6}:
        connection.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)
