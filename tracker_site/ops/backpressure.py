"""A Daphne that waits for slow readers.

Daphne hands every chunk of a response to Twisted at once, and Twisted keeps what the client does not take: one stalled
reader of a long stream costs hundreds of megabytes. Here `send` returns when the transport has room again, so that
whoever produces the response is held up, and nothing piles up but the transport's own buffer (64 KiB) and a little in
the kernel, which would otherwise take megabytes for a client that reads nothing: minutes of work for nobody.

Invariants: only HTTP responses wait; a connection that takes nothing for `STALL_S` is cut; a lost connection wakes
whoever waits for it. Importing Daphne installs Twisted's reactor: import this module only where a server is made.
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
# What the kernel takes beside what is on its way to the client; a fast client's window is as large as ever.
UNSENT_BYTES: Final = 16 * 1024


class Gate:
    """A Twisted push producer that only opens and closes."""

    def __init__(self) -> None:
        self._is_open = asyncio.Event()
        self._is_open.set()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """The transport is full."""
        self._is_open.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """The transport has room."""
        self._is_open.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """The connection is gone: nobody needs to wait."""
        self._is_open.set()

    async def is_passable(self, timeout_s: float) -> bool:
        """Wait until there is room; False when there was none in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_open.wait()
        except TimeoutError:
            return False
        return True


class BackpressureServer(Server):  # type: ignore[misc]  # Daphne has no types
    """Daphne's server; `send` of an HTTP response waits while its client does not read, and bodies have an end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Daphne's own parameters
        super().__init__(*args, **kwargs)
        self._gates: dict[WebRequest, Gate] = {}
        self._transports: weakref.WeakSet[Any] = weakref.WeakSet()
        self._factory = LimitedFactory(self)

    @property
    def http_factory(self) -> LimitedFactory:
        """What makes the protocol of each connection."""
        return self._factory

    @http_factory.setter
    def http_factory(self, _daphnes_own: HTTPFactory) -> None:
        """Daphne makes one of its own when it runs, and takes no other; ours stays."""

    async def handle_reply(self, protocol: WebRequest, message: dict[str, Any]) -> None:
        """Send one message of the application, then wait for room."""
        kind = message["type"]
        if kind == "http.response.start":
            self._open_gate(protocol)
        elif kind == "http.response.body" and not message.get("more_body", False):
            self._remove_gate(protocol)
        await super().handle_reply(protocol, message)
        gate = self._gates.get(protocol)
        if gate is not None and not await gate.is_passable(STALL_S):
            logger.warning("a client took nothing for %g s; its connection is cut", STALL_S)
            protocol.transport.abortConnection()

    async def flush(self, timeout_s: float) -> None:
        """Close every connection that had a response once its client has taken the rest, at a site's end.

        What Twisted still holds would be lost with the process: the very words that say why an answer ended.
        """
        for transport in list(self._transports):
            transport.loseConnection()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                # Twisted tells nobody but the protocol.
                while any(transport.connected for transport in self._transports):  # noqa: ASYNC110
                    await asyncio.sleep(FLUSH_POLL_S)

    def protocol_disconnected(self, protocol: object) -> None:
        """Forget a connection's gate; whoever waits at it goes on."""
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
        """Before the last chunk: Twisted refuses to finish a request that has a producer."""
        if self._gates.pop(protocol, None) is not None:
            protocol.unregisterProducer()


def _bound_unsent(connection: socket.socket) -> None:
    """Keep the kernel's send buffer short, where the system can (not on Windows) and it is TCP at all."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and connection.family in {socket.AF_INET, socket.AF_INET6}:
        connection.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)
