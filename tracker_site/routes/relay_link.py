"""The site process's one connection to the relay, shared by all of its routes.

Invariants: connects when it is first needed and again, with backoff, whenever it breaks; a break is told once to every
session that had a place, and none of them is bound again by itself. What waits to be written is bounded by the routes'
own credits. Everything runs on the loop that first used it. Payloads are not logged.
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

    # Told what concerns one session; packets are its own. Called on the loop, must not block.
    SessionListener = Callable[[MemberEvent], None]

_WRITE_STALL_S: Final = 10.0
# Shorter than a request waits (`RouteDeadlines.relay_s`), so that one succeeds that comes while the relay comes back.
_RECONNECT: Final = Backoff(first_s=0.1, longest_s=1.0)
# A connection that stood this long was a good one: the next attempt comes at once again.
_GOOD_AFTER_S: Final = 10.0
# A relay that stands still is noticed after all three, before the stages' step deadlines lay it to one of them.
_PING_S: Final = 2.0
_PONG_S: Final = 4.0
_CLOSE_S: Final = 0.5

log = logging.getLogger(__name__)


class RelayLink:
    """One relay member of this process."""

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
        """What tickets for this process name."""
        return self._signing_key.public_key

    @property
    def sessions(self) -> int:
        """Sessions with a place, asked for or bound."""
        return len(self._listeners)

    async def ready(self, timeout_s: float) -> None:
        """Wait until the connection stands; starts connecting on first use.

        Raises:
            RouteError: `relay_unavailable`: it does not stand in time.
        """
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="relay link")
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
        except TimeoutError:
            raise RouteError("relay_unavailable", "Relay unavailable", "The relay cannot be reached.") from None

    def bind(self, key: SessionKey, signed_ticket: bytes, listener: SessionListener) -> None:
        """Ask for the Gateway's place in a session; the answer, and everything after it, goes to `listener`.

        Raises:
            RouteError: `relay_unavailable`: the connection does not stand.
        """
        if self._member is None or self._member.state is not MemberState.READY:
            raise RouteError("relay_unavailable", "Relay unavailable", "The connection to the relay is gone.")
        self._member.bind(Binding(key, GATEWAY_STAGE), signed_ticket)
        self._listeners[key] = listener
        self._to_write.set()

    def send(self, key: SessionKey, packets: Iterable[Packet]) -> None:
        """Queue packets of a bound session; dropped where it no longer is, since its listener has been told."""
        if self._member is not None and self._member.is_bound(Binding(key, GATEWAY_STAGE)):
            self._member.send(packets)
            self._to_write.set()

    def leave(self, key: SessionKey) -> None:
        """Give a session's place up, behind what was queued for it; nothing more is told of it. Idempotent."""
        self._listeners.pop(key, None)
        if self._member is not None:
            self._member.unbind(Binding(key, GATEWAY_STAGE))
            self._to_write.set()

    async def close(self) -> None:
        """Disconnect for good. Idempotent."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def _keep(self) -> None:
        """Connect again and again, until cancelled."""
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
            log.warning("the relay does not read: connecting again")
            connection.transport.abort()
        except WebSocketException:
            return  # the reader notices too

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
