"""Holds the data connection to the relay for as long as the site names a relay.

Invariants: `meshnet.member` implements the protocol. Packets wait in a queue, which limits the bytes of each session,
and leave only while their session is bound. After a short loss of the connection the node binds again with the same
tickets; if the relay refuses that, or the connection stays lost for too long, the listener is told once that the
binding is over. If packets were lost with a connection, the edges of their sessions notice it from the sequence
numbers; nothing here does. One event loop; only the monotonic clock is read.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from meshnet.backoff import Backoff
from meshnet.constants import GATEWAY_GRACE_S, MAX_MESSAGE_BYTES
from meshnet.errors import ProtocolError
from meshnet.failure_codes import FailureCode
from meshnet.member import RelayMember
from meshnet.member_events import (
    Binding,
    BindRefused,
    Bound,
    Closed,
    MemberEvent,
    MemberState,
    PacketRefused,
    PacketsReceived,
    Ready,
    SessionEnded,
    StageLost,
)
from node_app.relay.held_bindings import HeldBinding, HeldBindings
from node_app.relay.packet_queue import PacketQueue, QueueResult
from node_app.system.racing import race
from node_app.system.unreachable import why_unreachable
from node_app.worker.refusal import RELAY_LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meshnet.ids import SessionKey
    from meshnet.keys import SigningKey
    from meshnet.packets import Packet

logger = logging.getLogger(__name__)

DATA_PATH = "/data"
RECONNECT = Backoff(first_s=0.1, longest_s=30.0)
OPEN_TIMEOUT_S = 10.0
GREETING_TIMEOUT_S = 10.0
PING_INTERVAL_S = 10.0
PING_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 1.0

# The relay and the Gateway wait no longer for a member that was lost. Source: docs/wire.md, Credits.
REBIND_GRACE_S = GATEWAY_GRACE_S

# Sent at once; small, so that a frame with one token never waits long behind a prompt.
BATCH_BYTES = 128 * 1024


def data_url(relay_url: str) -> str:
    """Return the WebSocket address of a relay. If `relay_url` has no path, DATA_PATH is used."""
    parts = urlsplit(relay_url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") or DATA_PATH))


@dataclass(frozen=True, slots=True)
class DataListener:
    """The callbacks of the data connection. They are called on its event loop and must not block.

    Attributes:
        on_data_changed: takes True if the relay has welcomed this node, False if that connection was lost.
        on_packets: takes packets for this node's stages, in order.
        on_binding_over: takes the key of a session that can no longer use the relay, and the code and message of the
            reason.
    """

    on_data_changed: Callable[[bool], None]
    on_packets: Callable[[Iterable[Packet]], None]
    on_binding_over: Callable[[SessionKey, str, str], None]


class DataConnection:
    """Connects to the relay, again after every loss. `run` owns all tasks and sockets; cancel it to end."""

    def __init__(self, key: SigningKey, listener: DataListener, jitter: Callable[[], float]) -> None:
        self._key = key
        self._listener = listener
        self._jitter = jitter
        self._member: RelayMember | None = None
        self._queue = PacketQueue()
        self._held = HeldBindings(self._queue, listener.on_binding_over)
        self._has_work = asyncio.Event()
        self._has_news = asyncio.Event()
        self._grace: asyncio.TimerHandle | None = None
        self._was_ready = False
        self._socket: ClientConnection | None = None
        self._least_trip_s: float | None = None

    @property
    def latency_ms(self) -> float | None:
        """Time of one way to the relay in milliseconds; None if no ping has been answered on this connection.

        It is half of the shortest round trip so far, since a ping that waits behind data takes longer than the way.
        """
        if self._socket is not None and self._socket.latency > 0:
            self._least_trip_s = min(self._socket.latency, self._least_trip_s or self._socket.latency)
        return None if self._least_trip_s is None else 1000 * self._least_trip_s / 2

    @property
    def is_connected(self) -> bool:
        """Whether the relay has welcomed this node."""
        return self._member is not None and self._member.state is MemberState.READY

    async def bind(self, binding: Binding, signed_ticket: bytes, queue_bytes: int) -> None:
        """Bind this node to its stage of a session, and return when the relay has confirmed it.

        There is no deadline here: a caller that must not wait for ever cancels the call.

        Args:
            binding: session and stage.
            signed_ticket: the site's permission to bind.
            queue_bytes: the most bytes of this session's packets that may wait for the relay.

        Raises:
            StageRefusedError: the relay refused, or the connection stayed lost for too long.
        """
        held = self._held.add(binding, signed_ticket, queue_bytes)
        if self.is_connected:
            self._ask(held)
        try:
            await held.confirmed
        except BaseException:
            self.unbind(binding)
            raise

    def unbind(self, binding: Binding) -> None:
        """Leave a session and drop its packets. Idempotent."""
        if self._held.remove(binding) and self._member is not None:
            self._member.unbind(binding)
            self._has_work.set()

    def send(self, packet: Packet) -> QueueResult:
        """Queue a packet, which leaves as soon as its session is bound; the result says whether there was room."""
        result = self._queue.offer(packet)
        self._has_work.set()
        return result

    async def run(self, url: Callable[[], str]) -> None:
        """Hold the connection, dialling again whenever it is lost, until cancelled.

        Args:
            url: returns the relay's address; called before each try, since a site may move its relay.
        """
        failures = 0
        try:
            while True:
                self._was_ready = False
                self._has_news.clear()
                reason = await self._hold_once(url())
                failures = 1 if self._was_ready else failures + 1
                delay_s = RECONNECT.delay_s(failures, self._jitter())
                logger.info("data connection: %s; next try in %.1f s", reason, delay_s)
                await self._pause(delay_s)
        finally:
            self._give_up("this node left the relay")

    def retry_now(self) -> None:
        """End the pause before the next try to connect, if there is one; called when the site has named its relay."""
        self._has_news.set()

    async def _pause(self, delay_s: float) -> None:
        try:
            async with asyncio.timeout(delay_s):
                await self._has_news.wait()
        except TimeoutError:
            return

    async def _hold_once(self, url: str) -> str:
        """Connect once, keep the connection until it ends, and return why it ended."""
        member = self._member = RelayMember(self._key)
        try:
            async with connect(
                data_url(url),
                max_size=MAX_MESSAGE_BYTES,
                open_timeout=OPEN_TIMEOUT_S,
                ping_interval=PING_INTERVAL_S,
                ping_timeout=PING_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                compression=None,
            ) as socket:
                self._socket, self._least_trip_s = socket, None
                await race(self._read(socket, member), self._write(socket, member))
                return "closed"
        except ProtocolError as error:
            return error.message
        except ConnectionClosed as error:
            return f"closed by the relay ({error})"
        except (OSError, WebSocketException) as error:
            return f"the relay cannot be reached: {why_unreachable(error)}"
        finally:
            member.connection_lost()
            self._member = self._socket = None
            self._on_lost()

    async def _read(self, socket: ClientConnection, member: RelayMember) -> None:
        async with asyncio.timeout(GREETING_TIMEOUT_S):
            while member.state is not MemberState.READY:
                await self._receive(socket, member)
        await socket.ping()  # measures the latency at once; the library's first ping leaves after PING_INTERVAL_S
        while True:
            await self._receive(socket, member)

    async def _receive(self, socket: ClientConnection, member: RelayMember) -> None:
        data = await socket.recv()
        if isinstance(data, str):
            raise ProtocolError(FailureCode.MALFORMED, "Relay not understood", "a text message from the relay")
        member.receive(data)
        for event in member.events():
            self._handle(event)
        self._has_work.set()  # the member may have an answer to send

    async def _write(self, socket: ClientConnection, member: RelayMember) -> None:
        while True:
            self._has_work.clear()
            self._feed(member)
            messages = member.data_to_send()
            for data in messages:
                await socket.send(data)
            if not messages:
                await self._has_work.wait()

    def _feed(self, member: RelayMember) -> None:
        """Give the member the next packets to send, up to BATCH_BYTES, if their sessions are bound."""
        if member.state is MemberState.READY:
            packets = self._queue.take(BATCH_BYTES, lambda one: member.is_bound(Binding(one.key, one.from_stage)))
            member.send(packets)

    def _handle(self, event: MemberEvent) -> None:
        match event:
            case Ready():
                self._on_ready()
            case Bound(binding):
                self._held.confirm(binding)
            case BindRefused(binding, code, message):
                self._held.end(binding, code, message)
            case SessionEnded(key, _, code, message):
                self._held.end_session(key, code, message)
            case PacketsReceived(packets):
                self._listener.on_packets(packets)
            case PacketRefused(key, stage, code, _):
                logger.warning("%s: the relay refused a packet to stage %d (%s)", key, stage, code)
            case StageLost(key, stage):
                # The Gateway is told as well and decides whether the session ends.
                logger.info("%s: stage %d left the relay", key, stage)
            case Closed(code, message):
                raise ProtocolError(code, "Dismissed by the relay", message)

    def _on_ready(self) -> None:
        self._was_ready = True
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        for held in self._held.all():
            self._ask(held)
        self._listener.on_data_changed(True)

    def _on_lost(self) -> None:
        if not self._was_ready:
            return
        if self._grace is None:
            loop = asyncio.get_running_loop()
            message = f"the connection to the relay was lost for {REBIND_GRACE_S:g} s"
            self._grace = loop.call_later(REBIND_GRACE_S, self._give_up, message)
        self._listener.on_data_changed(False)

    def _ask(self, held: HeldBinding) -> None:
        if self._member is not None:
            self._member.bind(held.binding, held.signed_ticket)
            self._has_work.set()

    def _give_up(self, message: str) -> None:
        """End every binding, since the relay cannot be waited for any longer."""
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        self._held.end_all(RELAY_LOST, message)
