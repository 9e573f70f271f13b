"""The control connection to the site, held for as long as the node runs.

Invariants: `control_machine.py` decides everything about the protocol, and `SiteStages` everything about sessions. A
lost connection is made anew, after jittered exponential waits and without end, except if the site says that trying
again cannot help. Every wait has a deadline. Only the monotonic clock is read. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from meshnet import __version__
from meshnet.backoff import Backoff
from meshnet.constants import MAX_MESSAGE_BYTES
from meshnet.errors import MeshnetError, ProtocolError
from meshnet.failure_codes import FailureCode
from meshnet.v1 import control_pb2
from node_app.site.control_machine import (
    CloseAsked,
    ControlEvent,
    ControlMachine,
    ControlPhase,
    NoticeTold,
    OpenAsked,
    SiteRefused,
    StoredTold,
    Welcomed,
)
from node_app.system.racing import race
from node_app.system.unreachable import why_unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meshnet.ids import SessionKey
    from meshnet.keys import SigningKey

logger = logging.getLogger(__name__)

CONTROL_PATH = "/nodes/control"
RECONNECT = Backoff(first_s=0.2, longest_s=15.0)
OPEN_TIMEOUT_S = 10.0
GREETING_TIMEOUT_S = 10.0
PING_INTERVAL_S = 10.0
PING_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0

# Reports leave a little earlier than asked, so that a late timer is no absence.
HEARTBEAT_PART = 0.8

# Refusals that the same node gets again until a person does something.
FINAL_REFUSALS = frozenset({"version_mismatch", "unknown_node", "node_blocked", "replaced"})


class NodeRefusedError(MeshnetError):
    """The site refuses this node, and asking again cannot help."""


class SiteStages(Protocol):
    """Opens and closes this node's stages for the site. Called on the event loop, so its methods must not block."""

    def keys(self) -> Iterable[SessionKey]:
        """Return the open sessions, which the node lists in its hello to the site."""

    def open(self, request: control_pb2.OpenStage) -> None:
        """Begin to open a stage; the result is sent to the site when it is known."""

    def close(self, key: SessionKey, reason: str) -> None:
        """Close a session that is open or is being opened. Idempotent."""

    def keep_only(self, keep: Iterable[SessionKey]) -> None:
        """Close all sessions except those in `keep`, which the site still wants after a reconnect."""


class ControlListener(Protocol):
    """Gets the news of the control connection. Called on the event loop, so its methods must not block."""

    def build_report(self) -> control_pb2.NodeReport:
        """Return a report of the node's present state."""

    def on_welcome(self, welcome: Welcomed) -> None:
        """Note that the site accepted the node."""

    def on_report_stored(self, report_id: int, earned_micros: int | None) -> None:
        """Note that the site has stored the report `report_id`; `earned_micros` is as in `StoredTold`."""

    def on_notice(self, code: str, message: str) -> None:
        """Note why the site does not use this node; both are empty if nothing is wrong any more."""

    def on_down(self, reason: str) -> None:
        """Note that the connection is lost or could not be made; `reason` is for people."""


def control_url(site_url: str) -> str:
    """Return the WebSocket address at which a site takes control connections."""
    parts = urlsplit(site_url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + CONTROL_PATH, "", ""))


class ControlConnection:
    """Holds the control connection. `run` owns all tasks and sockets; to end the connection, cancel `run`."""

    def __init__(
        self, url: str, key: SigningKey, stages: SiteStages, listener: ControlListener, jitter: Callable[[], float]
    ) -> None:
        self._url = url
        self._key = key
        self._stages = stages
        self._listener = listener
        self._jitter = jitter
        self._machine: ControlMachine | None = None
        self._has_work = asyncio.Event()

    def send(self, message: control_pb2.NodeMessage) -> bool:
        """Queue a message and return True; if no connection is open, drop the message and return False."""
        if self._machine is None or not self._machine.send(message):
            return False
        self._has_work.set()
        return True

    def send_report(self) -> bool:
        """Queue a report of the node's present state; the result is that of `send`."""
        return self.send(control_pb2.NodeMessage(report=self._listener.build_report()))

    async def run(self) -> None:
        """Hold the connection, and dial again whenever it is lost, until this call is cancelled.

        Raises:
            NodeRefusedError: the site refused the node for good.
        """
        failures = 0
        while True:
            machine = ControlMachine(self._key, __version__, self._stages.keys())
            reason = await self._hold_once(machine)
            failures = 1 if machine.was_open else failures + 1
            delay_s = RECONNECT.delay_s(failures, self._jitter())
            logger.info("control connection: %s; next try in %.1f s", reason, delay_s)
            self._listener.on_down(reason)
            await asyncio.sleep(delay_s)

    async def _hold_once(self, machine: ControlMachine) -> str:
        """Hold one connection until it is lost and return the reason, for people."""
        self._machine = machine
        try:
            async with connect(
                self._url,
                max_size=MAX_MESSAGE_BYTES,
                open_timeout=OPEN_TIMEOUT_S,
                ping_interval=PING_INTERVAL_S,
                ping_timeout=PING_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                compression=None,
            ) as socket:
                return await self._talk(socket, machine)
        except ConnectionClosed as error:
            return f"closed by the site ({error})"
        except (OSError, WebSocketException) as error:
            return f"the site cannot be reached: {why_unreachable(error)}"
        except ProtocolError as error:
            return error.message
        finally:
            self._machine = None

    async def _talk(self, socket: ClientConnection, machine: ControlMachine) -> str:
        heartbeat_s = await self._greet(socket, machine)
        await race(self._read(socket, machine), self._write(socket, machine, heartbeat_s))
        return "closed"

    async def _greet(self, socket: ClientConnection, machine: ControlMachine) -> float:
        """Exchange challenge, hello and welcome with the site; return the welcome's `heartbeat_s`."""
        async with asyncio.timeout(GREETING_TIMEOUT_S):
            while True:
                machine.receive(_binary(await socket.recv()))
                for data in machine.messages_to_send():
                    await socket.send(data)
                for event in machine.events():
                    self._handle(event)
                    if isinstance(event, Welcomed):
                        return event.heartbeat_s

    async def _read(self, socket: ClientConnection, machine: ControlMachine) -> None:
        while True:
            machine.receive(_binary(await socket.recv()))
            for event in machine.events():
                self._handle(event)

    def _handle(self, event: ControlEvent) -> None:
        match event:
            case Welcomed():
                self._stages.keep_only(event.keep)
                self._listener.on_welcome(event)
            case OpenAsked(request):
                self._stages.open(request)
            case CloseAsked(key, reason):
                self._stages.close(key, reason)
            case StoredTold(report_id, earned_micros):
                self._listener.on_report_stored(report_id, earned_micros)
            case NoticeTold(code, message):
                self._listener.on_notice(code, message)
            case SiteRefused(code, message):
                if code in FINAL_REFUSALS:
                    raise NodeRefusedError(code, "Refused by the site", message or code)
                raise ProtocolError(code, "Refused by the site", f"refused by the site: {message or code}")

    async def _write(self, socket: ClientConnection, machine: ControlMachine, heartbeat_s: float) -> None:
        loop = asyncio.get_running_loop()
        report_at = loop.time()  # at once, since the site does not know this node's state yet
        while machine.phase is ControlPhase.OPEN:
            if loop.time() >= report_at:
                machine.send(control_pb2.NodeMessage(report=self._listener.build_report()))
                report_at = loop.time() + heartbeat_s * HEARTBEAT_PART
            for data in machine.messages_to_send():
                await socket.send(data)
            try:
                async with asyncio.timeout_at(report_at):
                    await self._has_work.wait()
            except TimeoutError:
                continue
            self._has_work.clear()


def _binary(data: str | bytes) -> bytes:
    if isinstance(data, str):
        raise ProtocolError(FailureCode.MALFORMED, "Site not understood", "control connection: a text message")
    return data
