"""A relay process and members connected to it by real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from meshnet.constants import GATEWAY_STAGE
from meshnet.ids import Edge, SessionKey
from meshnet.keys import SigningKey
from meshnet.member import RelayMember
from meshnet.member_events import Binding, Bound, MemberEvent, PacketsReceived, Ready
from meshnet.packets import Packet, PacketKind
from meshnet.tickets import EdgePermit, Ticket, sign_ticket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

RELAY_ID = "relay-under-test"
SITE_KEY = SigningKey.from_bytes(b"s" * 32)
DEADLINE_S = 10.0
WINDOW_BYTES = 1 << 20

Event = TypeVar("Event", bound=MemberEvent)


@dataclass(frozen=True)
class RelayProcess:
    process: asyncio.subprocess.Process
    url: str
    port: int


@asynccontextmanager
async def a_relay(*arguments: str) -> AsyncIterator[RelayProcess]:
    """Start `python -m tracker_site.relay` and stop it again."""
    process = await asyncio.create_subprocess_exec(
        *_command(*arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_environment(),
    )
    assert process.stdout is not None
    try:
        line = json.loads(await asyncio.wait_for(process.stdout.readline(), DEADLINE_S))
        yield RelayProcess(process, line["url"], line["port"])
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), DEADLINE_S)


@contextmanager
def a_shared_relay() -> Iterator[str]:
    """A relay process that outlives one test's event loop; gives its URL."""
    with subprocess.Popen(_command(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment()) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def _command(*arguments: str) -> list[str]:
    own = ["--relay-id", RELAY_ID, "--site-public-key", SITE_KEY.public_key.hex()]
    return [sys.executable, "-m", "tracker_site.relay", *own, *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def a_key(number: int = 0) -> SessionKey:
    return SessionKey(number.to_bytes(16, "big"), 1)


def a_ticket(member_key: SigningKey, stage: int, number: int = 0, **changes: object) -> Ticket:
    """A ticket of a session of a Gateway, a head (0) and a tail (1)."""
    permits = (
        EdgePermit(Edge(GATEWAY_STAGE, 0), WINDOW_BYTES, carries_frames=True),
        EdgePermit(Edge(0, 1), WINDOW_BYTES, carries_frames=True),
        EdgePermit(Edge(1, 0), WINDOW_BYTES, carries_frames=True),
        EdgePermit(Edge(1, GATEWAY_STAGE), WINDOW_BYTES, carries_tokens=True),
    )
    ticket = Ticket(
        ticket_id=os.urandom(16),
        relay_id=RELAY_ID,
        key=a_key(number),
        stage=stage,
        member_key=member_key.public_key,
        permits=tuple(one for one in permits if stage in {one.edge.from_stage, one.edge.to_stage}),
        bytes_max=1 << 30,
        bytes_per_s=1 << 30,
        bind_before_unix_s=int(time.time()) + 60,
    )
    return replace(ticket, **changes)  # type: ignore[arg-type]  # a test's builder


class Member:
    """A connected member; `reads` may be turned off to be a slow one."""

    def __init__(self, connection: ClientConnection, signing_key: SigningKey) -> None:
        self.connection = connection
        self.signing_key = signing_key
        self.machine = RelayMember(signing_key)
        self.seen: list[MemberEvent] = []

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[Self]:
        async with connect(url, compression=None, max_size=None, ping_interval=None, close_timeout=1) as connection:
            member = cls(connection, SigningKey.generate())
            await member.wait_for(Ready)
            yield member

    async def flush(self) -> None:
        for data in self.machine.data_to_send():
            await self.connection.send(data)

    async def wait_for(self, kind: type[Event], matches: Callable[[Event], bool] = lambda _: True) -> Event:
        """Read until an event of this kind has come, and take it."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for event in self.seen:
                    if isinstance(event, kind) and matches(event):
                        self.seen.remove(event)
                        return event
                await self._read()

    async def _read(self) -> None:
        try:
            data = await self.connection.recv(decode=False)
        except ConnectionClosed:
            self.machine.connection_lost()
        else:
            self.machine.receive(data)
            await self.flush()
        self.seen.extend(self.machine.events())

    async def bind(self, stage: int, number: int = 0, **changes: object) -> Ticket:
        ticket = a_ticket(self.signing_key, stage, number, **changes)
        self.machine.bind(Binding(ticket.key, stage), sign_ticket(ticket, SITE_KEY))
        await self.flush()
        await self.wait_for(Bound)
        return ticket

    async def send(self, *packets: Packet) -> None:
        self.machine.send(packets)
        await self.flush()

    async def payloads(self, count: int) -> list[bytes]:
        """The next `count` payloads, in order."""
        received: list[bytes] = []
        while len(received) < count:
            event = await self.wait_for(PacketsReceived)
            received.extend(packet.payload for packet in event.packets)
        return received


def a_packet(
    from_stage: int, to_stage: int, payload: bytes = b"rows", *, kind: PacketKind = PacketKind.FRAME, number: int = 0
) -> Packet:
    return Packet(a_key(number), from_stage, to_stage, kind, payload)
