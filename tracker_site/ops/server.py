"""Daphne and the relay in one life: both come up, or the start fails; when one call ends them, both end.

Invariants: importing Daphne installs Twisted's reactor, so that happens only in here; the socket is bound before, so
that a taken port is known before anything starts; running applications get their cancellation and a moment to record
their end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final

from meshnet.errors import MeshnetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracker_site.ops.relay_process import RelayProcess

logger = logging.getLogger(__name__)

LISTEN_BACKLOG: Final = 512
# Daphne's own default of 1 MiB answers with 1006 and no word; control messages are far smaller and refused by name.
WEBSOCKET_MESSAGE_MAX_BYTES: Final = 1024 * 1024
PING_INTERVAL_S: Final = 20
PING_TIMEOUT_S: Final = 30
APPLICATION_CLOSE_TIMEOUT_S: Final = 10
SHUTDOWN_TIMEOUT_S: Final = 5.0


class PortTakenError(MeshnetError):
    """Another program listens there."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 chooses one.

    Raises:
        PortTakenError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(LISTEN_BACKLOG)
    except OSError as error:
        listening.close()
        message = f"cannot listen on {host}:{port}: {error.strerror}"
        raise PortTakenError("port_taken", "Port not available", message) from error
    return listening


def free_port(host: str) -> int:
    """A port that is free now."""
    with bind(host, 0) as probe:
        return int(probe.getsockname()[1])


def run_site(
    application: object, listening: socket.socket, relay: RelayProcess, announce: Callable[[], None]
) -> MeshnetError | None:
    """Serve until SIGTERM or SIGINT; must run in the main thread. Returns why the start failed, if it did."""
    from daphne.server import Server, defer, reactor  # noqa: PLC0415 - installs Twisted's reactor

    server = Server(
        application,
        endpoints=[f"fd:fileno={listening.fileno()}:domain={int(listening.family)}"],
        http_timeout=None,  # long streams; every phase of a generation has a deadline of its own
        websocket_timeout=-1,  # Daphne would close every control connection after a day
        websocket_max_message_size=WEBSOCKET_MESSAGE_MAX_BYTES,
        websocket_max_frame_size=WEBSOCKET_MESSAGE_MAX_BYTES,
        ping_interval=PING_INTERVAL_S,
        ping_timeout=PING_TIMEOUT_S,
        application_close_timeout=APPLICATION_CLOSE_TIMEOUT_S,
        verbosity=0,
        server_name="meshnet",
    )
    failures: list[MeshnetError] = []

    async def start() -> None:
        try:
            await relay.start()
        except MeshnetError as error:
            failures.append(error)
            server.stop()
            return
        announce()

    def started() -> None:
        listening.close()  # the reactor listens on its own duplicate
        tasks.append(asyncio.ensure_future(start()))

    def stopped() -> object:
        return defer.Deferred.fromFuture(asyncio.ensure_future(_shut_down(server, relay, tasks)))

    tasks: list[asyncio.Future[None]] = []
    reactor.callWhenRunning(started)
    reactor.addSystemEventTrigger("before", "shutdown", stopped)
    server.run()
    return failures[0] if failures else None


async def _shut_down(server: object, relay: RelayProcess, tasks: list[asyncio.Future[None]]) -> None:
    details = list(getattr(server, "connections", {}).values())
    running = [one["application_instance"] for one in details if one.get("application_instance") is not None]
    for task in (*running, *tasks):
        task.cancel()
    if running:
        _, late = await asyncio.wait(running, timeout=SHUTDOWN_TIMEOUT_S)
        if late:
            logger.warning("%d connections did not end within %g s", len(late), SHUTDOWN_TIMEOUT_S)
    await relay.stop()
