"""The site process's one connection to the relay, which all of its routes share.

Invariants: the connection is made when it is first needed, and again with backoff if it breaks. If it breaks, every
bound session is told once, and none is bound again automatically. The windows of the routes bound the packets that wait
to be written. Everything runs on the event loop that first used the connection. Payloads are not logged.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from meshnet.backoff import Backoff
from meshnet.constants import GATEWAY_STAGE, MAX_MESSAGE_BYTES
from meshnet.errors import RouteError
from meshnet.member import RelayMember
from meshnet.member_events import (
    Binding,
    BindRefused,
    Bound,
    Closed,
    MemberState,
    PacketRefused,
    PacketsReceived,
    Ready,
    SessionEnded,
    StageLost,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from websockets.asyncio.client import ClientConnection

    from meshnet.ids import SessionKey
    from meshnet.keys import SigningKey
    from meshnet.member_events import MemberEvent
    from meshnet.packets import Packet

    # Gets the events and packets of one session. Called on the event loop; must not block.
    SessionListener = Callable[[MemberEvent], None]

_WRITE_STALL_S: Final = 10.0
# Shorter than a request waits (`RouteDeadlines.relay_s`), so a request succeeds if the relay returns while it waits.
_RECONNECT: Final = Backoff(first_s=0.1, longest_s=1.0)
# If a connection lasted this long, in seconds, the backoff starts anew.
_GOOD_AFTER_S: Final = 10.0
# A stalled relay is noticed after the sum of these three, before step deadlines pass and blame a stage.
_PING_S: Final = 2.0
_PONG_S: Final = 4.0
_CLOSE_S: Final = 0.5

log = logging.getLogger(__name__)


class RelayLink:
    """The connection to the relay by which this process is the Gateway of all its sessions."""

    def __init__(self, url: str, signing_key: SigningKey) -> None:
        self._url = url
        self._signing_key = signing_key
        self._member: RelayMember | None = None
        self._ready = asyncio.Event()
        self._to_write = asyncio.Event()
        self._listeners: dict[SessionKey, SessionListener] = {}
        self._keeper: asyncio.Task[None] | None = None

    @property
    def public_key(self) -> bytes:
        """Ed25519 public key of this process at the relay, 32 bytes. The process's tickets contain it."""
        return self._signing_key.public_key

    @property
    def sessions(self) -> int:
        """Number of sessions that are bound or wait to be bound."""
        return len(self._listeners)

    async def ready(self, timeout_s: float) -> None:
        """Wait until the relay is connected; the first call starts connecting.

        Raises:
            RouteError: `relay_unavailable`, if it is not connected within `timeout_s`.
        """
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="relay link")
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
        except TimeoutError:
            raise RouteError(
                "relay_unavailable", "Relay unavailable", "The site cannot reach its relay; try again later."
            ) from None

    def bind(self, key: SessionKey, signed_ticket: bytes, listener: SessionListener) -> None:
        """Ask the relay to bind this process as a session's Gateway; `listener` gets the answer and all later events.

        Raises:
            RouteError: `relay_unavailable`, if the relay is not connected.
        """
        if self._member is None or self._member.state is not MemberState.READY:
            raise RouteError("relay_unavailable", "Relay unavailable", "The site has lost its relay; try again later.")
        self._member.bind(Binding(key, GATEWAY_STAGE), signed_ticket)
        self._listeners[key] = listener
        self._to_write.set()

    def send(self, key: SessionKey, packets: Iterable[Packet]) -> None:
        """Queue packets of a session. If the session is not bound any more, drop them; its listener has been told."""
        if self._member is not None and self._member.is_bound(Binding(key, GATEWAY_STAGE)):
            self._member.send(packets)
            self._to_write.set()

    def leave(self, key: SessionKey) -> None:
        """Unbind a session once its queued packets are sent; its listener gets no more events. Idempotent."""
        self._listeners.pop(key, None)
        if self._member is not None:
            self._member.unbind(Binding(key, GATEWAY_STAGE))
            self._to_write.set()

    async def close(self) -> None:
        """Disconnect and do not connect again. Idempotent."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def _keep(self) -> None:
        """Connect to the relay, and connect again whenever the connection breaks, until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            started_s = loop.time()
            try:
                await self._connect_once()
            except (OSError, TimeoutError, WebSocketException) as error:
                log.warning("no connection to the relay: %s", type(error).__name__)
            failures = 1 if loop.time() - started_s >= _GOOD_AFTER_S else failures + 1
            await asyncio.sleep(_RECONNECT.delay_s(failures, random.random()))  # noqa: S311 - jitter

    async def _connect_once(self) -> None:
        async with connect(
            self._url,
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            ping_interval=_PING_S,
            ping_timeout=_PONG_S,
            close_timeout=_CLOSE_S,
            user_agent_header=None,
        ) as connection:
            member = self._member = RelayMember(self._signing_key)
            writer = asyncio.create_task(self._write(member, connection))
            try:
                async for data in connection:
                    member.receive(data if isinstance(data, bytes) else b"")
                    self._handle_events(member)
                    if member.state is MemberState.CLOSED:
                        return
            finally:
                self._ready.clear()
                member.connection_lost()
                self._handle_events(member)
                writer.cancel()
                await asyncio.wait([writer])

    async def _write(self, member: RelayMember, connection: ClientConnection) -> None:
        try:
            while True:
                await self._to_write.wait()
                self._to_write.clear()
                for data in member.data_to_send():
                    async with asyncio.timeout(_WRITE_STALL_S):
                        await connection.send(data)
        except TimeoutError:
            log.warning("the relay does not read; connecting again")
            connection.transport.abort()
        except WebSocketException:
            return  # The reading side sees the closed connection too.

    def _handle_events(self, member: RelayMember) -> None:
        self._to_write.set()
        for event in member.events():
            match event:
                case Ready():
                    self._ready.set()
                case Closed(code, message):
                    log.warning("the relay connection closed: %s (%s)", code, message)
                    listeners, self._listeners = self._listeners, {}
                    for listener in listeners.values():
                        listener(event)
                case PacketsReceived(packets):
                    self._deliver(packets)
                case Bound(binding) | BindRefused(binding):
                    self._tell(binding.key, event)
                case PacketRefused(key) | SessionEnded(key) | StageLost(key):
                    self._tell(key, event)

    def _deliver(self, packets: tuple[Packet, ...]) -> None:
        by_key: dict[SessionKey, list[Packet]] = {}
        for packet in packets:
            by_key.setdefault(packet.key, []).append(packet)
        for key, own in by_key.items():
            self._tell(key, PacketsReceived(tuple(own)))

    def _tell(self, key: SessionKey, event: MemberEvent) -> None:
        listener = self._listeners.get(key)
        if listener is not None:
            listener(event)
