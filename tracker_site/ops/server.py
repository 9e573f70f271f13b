"""Runs Daphne, and the relay if the site starts its own: both start or the start fails, and both end together.

Invariants: importing Daphne installs Twisted's reactor, so Daphne is imported only inside `run_site`. The socket is
bound by the caller, so that a taken port is found before anything starts. At the end, running requests are cancelled
and get SHUTDOWN_TIMEOUT_S to record their end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING, Final

from meshnet.errors import MeshnetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracker_site.ops.backpressure import BackpressureServer
    from tracker_site.ops.relay_process import RelayProcess

logger = logging.getLogger(__name__)

LISTEN_BACKLOG: Final = 512
SHUTDOWN_TIMEOUT_S: Final = 5.0
SETTLE_TIMEOUT_S: Final = 5.0
FLUSH_TIMEOUT_S: Final = 2.0
DAPHNE_OPTIONS: Final = {
    "http_timeout": None,  # long streams; every phase of a generation has a deadline of its own
    "websocket_timeout": -1,  # Daphne would close every control connection after a day
    # Daphne closes a connection with a larger message without a reason (1006). Control messages have a far smaller
    # limit of their own, whose refusal says the reason.
    "websocket_max_message_size": 1024 * 1024,
    "websocket_max_frame_size": 1024 * 1024,
    "ping_interval": 20,  # s
    "ping_timeout": 30,  # s
    "application_close_timeout": 10,  # s
    "verbosity": 0,
    "server_name": "meshnet",
}


class ListenError(MeshnetError):
    """The site cannot listen on an address: `port_taken`, `port_forbidden` or `address_unavailable`."""


def bind(host: str, port: int, option: str) -> socket.socket:
    """Return a listening socket.

    Args:
        host: an address of this machine, or its name.
        port: the port; 0 chooses a free one.
        option: the command line's option for the port, which an error recommends.

    Raises:
        ListenError: the address is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(LISTEN_BACKLOG)
    except OSError as error:
        listening.close()
        raise _explain(error, f"cannot listen on {host}:{port}: {error.strerror}", option) from error
    return listening


def _explain(error: OSError, failure: str, option: str) -> ListenError:
    if error.errno == errno.EADDRINUSE:
        return ListenError(
            "port_taken", "Port not available", f"{failure}; choose another with {option}, 0 takes a free one"
        )
    if error.errno in {errno.EACCES, errno.EPERM}:
        message = f"{failure}; ports below 1024 need rights that this user may lack: choose another with {option}"
        return ListenError("port_forbidden", "Port not allowed", message)
    message = f"{failure}; name an address of this machine with --host"
    return ListenError("address_unavailable", "Address not available", message)


def probe_port(host: str, port: int, option: str) -> int:
    """Check that a port is free now and return its number; port 0 chooses a free one.

    Raises:
        ListenError: the port is not available; see `bind`.
    """
    with bind(host, port, option) as probe:
        return int(probe.getsockname()[1])


def run_site(
    application: object, listening: socket.socket, relay: RelayProcess | None, announce: Callable[[], None]
) -> MeshnetError | None:
    """Serve until SIGTERM or SIGINT. Call it in the main thread.

    Args:
        application: the ASGI application.
        listening: the socket that `bind` returned; this function closes it.
        relay: the relay to start before announcing and to stop at the end; None if a relay runs elsewhere.
        announce: called once when the site and its relay listen.

    Returns:
        The failure of the start; None if the site has served.
    """
    from daphne.server import defer, reactor  # noqa: PLC0415 - installs Twisted's reactor

    from tracker_site.ops.backpressure import BackpressureServer  # noqa: PLC0415 - imports Daphne

    server = BackpressureServer(application, endpoints=[_endpoint(listening)], **DAPHNE_OPTIONS)
    failures: list[MeshnetError] = []
    tasks: list[asyncio.Future[None]] = []

    def started() -> None:
        tasks.append(asyncio.ensure_future(_start_up(server, relay, announce, failures)))

    def stopped() -> object:
        return defer.Deferred.fromFuture(asyncio.ensure_future(_shut_down(server, relay, tasks)))

    reactor.callWhenRunning(started)
    reactor.addSystemEventTrigger("before", "shutdown", stopped)
    server.run()
    if not server.listening_addresses:
        failures.append(ListenError("port_taken", "Port not available", "the site could not listen"))
    return failures[0] if failures else None


def _endpoint(listening: socket.socket) -> str:
    """Return the Twisted endpoint for a bound socket's address; the caller must not use the socket any more."""
    if listening.family == socket.AF_INET:
        return f"fd:fileno={listening.detach()}"
    # Daphne's `fd` endpoints are IPv4 only, so an IPv6 port is closed and opened again; for a moment it is free.
    host, port = listening.getsockname()[:2]
    listening.close()
    escaped = host.replace(":", "\\:")
    return f"tcp6:port={port}:interface={escaped}"


async def _start_up(
    server: BackpressureServer, relay: RelayProcess | None, announce: Callable[[], None], failures: list[MeshnetError]
) -> None:
    """Start the relay, announce the site and warm it up; if the relay fails, add its error to `failures` and stop."""
    from tracker_site.gateway.composition import composition  # noqa: PLC0415 - needs the settings

    try:
        if relay is not None:
            await relay.start()
    except MeshnetError as error:
        failures.append(error)
        server.stop()
        return
    announce()
    try:
        await composition.gateway().warm_up()
    except Exception:
        logger.exception("the site could not be warmed up; its first requests will take longer")


async def _shut_down(server: BackpressureServer, relay: RelayProcess | None, tasks: list[asyncio.Future[None]]) -> None:
    from tracker_site.gateway.composition import composition  # noqa: PLC0415 - needs the settings

    await composition.stop(SETTLE_TIMEOUT_S)  # tells clients why their answers end, so it precedes cancellation
    details = list(getattr(server, "connections", {}).values())
    running = [one["application_instance"] for one in details if one.get("application_instance") is not None]
    for task in (*running, *tasks):
        task.cancel()
    if running:
        _, late = await asyncio.wait(running, timeout=SHUTDOWN_TIMEOUT_S)
        if late:
            logger.warning("%d connections did not end within %g s", len(late), SHUTDOWN_TIMEOUT_S)
    await server.flush(FLUSH_TIMEOUT_S)
    if relay is not None:
        await relay.stop()
