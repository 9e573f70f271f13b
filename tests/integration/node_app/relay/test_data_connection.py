"""The data connection against a real relay process: binding, losing, binding again, giving up."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from meshnet.backoff import Backoff
from meshnet.constants import GATEWAY_STAGE
from meshnet.keys import SigningKey
from meshnet.member_events import Binding
from meshnet.packets import PacketKind
from meshnet.tickets import sign_ticket
from node_app.relay.data_connection import DataConnection, DataListener
from node_app.relay.packet_queue import QueueResult
from node_app.worker.refusal import StageRefusedError
from tests.integration.node_app.cuttable_proxy import CuttableProxy, a_cuttable_proxy
from tests.integration.tracker_site.relay.process import SITE_KEY, Member, a_key, a_packet, a_relay, a_ticket
from tests.simulators.line_process import long_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from meshnet.ids import SessionKey
    from meshnet.packets import Packet

DEADLINE_S = 10.0
QUEUE_BYTES = 1 << 20
HEAD = Binding(a_key(), 0)


@dataclass
class Listener:
    """Keeps what it is told; `changed` is set with each."""

    connected: list[bool] = field(default_factory=list)
    packets: list[Packet] = field(default_factory=list)
    over: list[tuple[SessionKey, str]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def on_data_changed(self, is_connected: bool) -> None:
        self.connected.append(is_connected)
        self.changed.set()

    def on_packets(self, packets: Iterable[Packet]) -> None:
        self.packets.extend(packets)
        self.changed.set()

    def on_binding_over(self, key: SessionKey, code: str, message: str) -> None:
        assert message
        self.over.append((key, code))
        self.changed.set()

    def callables(self) -> DataListener:
        return DataListener(self.on_data_changed, self.on_packets, self.on_binding_over)

    async def wait_until(self, is_so: object) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not is_so():  # type: ignore[operator]
                self.changed.clear()
                await self.changed.wait()


@dataclass
class Setting:
    link: DataConnection
    listener: Listener
    proxy: CuttableProxy
    gateway: Member
    key: SigningKey

    def ticket(self) -> bytes:
        return sign_ticket(a_ticket(self.key, stage=0), SITE_KEY)


@asynccontextmanager
async def a_setting() -> AsyncIterator[Setting]:
    """A link through a proxy to a relay, and a Gateway bound at it."""
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(a_relay())
        proxy = await stack.enter_async_context(a_cuttable_proxy(relay.port))
        gateway = await stack.enter_async_context(Member.connected(relay.url))
        await gateway.bind(GATEWAY_STAGE)
        key, listener = SigningKey.generate(), Listener()
        link = DataConnection(key, listener.callables(), lambda: 0.0)
        running = asyncio.create_task(link.run(lambda: f"ws://127.0.0.1:{proxy.port}/data"))
        try:
            yield Setting(link, listener, proxy, gateway, key)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_packets_go_both_ways_in_order() -> None:
    async with a_setting() as setting:
        async with asyncio.timeout(DEADLINE_S):
            await setting.link.bind(HEAD, setting.ticket(), QUEUE_BYTES)
        await setting.gateway.send(*(a_packet(GATEWAY_STAGE, 0, bytes([number])) for number in range(20)))
        await setting.listener.wait_until(lambda: len(setting.listener.packets) == 20)
        assert [packet.payload[0] for packet in setting.listener.packets] == list(range(20))
        for number in range(20):
            answer = a_packet(0, GATEWAY_STAGE, bytes([number]), kind=PacketKind.CONTROL)
            assert setting.link.send(answer) is QueueResult.TAKEN
        assert await setting.gateway.payloads(20) == [bytes([number]) for number in range(20)]


async def test_a_bind_waits_for_the_first_connection() -> None:
    async with a_setting() as setting:
        assert not setting.link.is_connected
        async with asyncio.timeout(DEADLINE_S):
            await setting.link.bind(HEAD, setting.ticket(), QUEUE_BYTES)
        assert setting.link.is_connected


async def test_a_short_loss_binds_again_and_what_waited_is_sent() -> None:
    async with a_setting() as setting:
        async with asyncio.timeout(DEADLINE_S):
            await setting.link.bind(HEAD, setting.ticket(), QUEUE_BYTES)
        setting.proxy.cut()
        await setting.listener.wait_until(lambda: setting.listener.connected == [True, False])
        setting.link.send(a_packet(0, GATEWAY_STAGE, b"waited", kind=PacketKind.CONTROL))
        assert await setting.gateway.payloads(1) == [b"waited"]
        assert setting.listener.connected == [True, False, True]
        assert setting.listener.over == []
        assert setting.proxy.visits == 2


async def test_a_long_loss_ends_the_sessions_once_and_the_link_comes_back() -> None:
    async with a_setting() as setting:
        async with asyncio.timeout(DEADLINE_S):
            await setting.link.bind(HEAD, setting.ticket(), QUEUE_BYTES)
        setting.proxy.is_open = False
        setting.proxy.cut()
        await setting.listener.wait_until(lambda: setting.listener.over)
        assert setting.listener.over == [(HEAD.key, "relay_lost")]
        assert setting.link.send(a_packet(0, GATEWAY_STAGE)) is QueueResult.STRAY
        setting.proxy.is_open = True
        await setting.listener.wait_until(lambda: setting.listener.connected[-1])
        assert len(setting.listener.over) == 1


async def test_a_refused_ticket_refuses_the_stage() -> None:
    async with a_setting() as setting:
        forged = sign_ticket(a_ticket(setting.key, stage=0), SigningKey.generate())
        with pytest.raises(StageRefusedError, match="ticket_forged"):
            async with asyncio.timeout(DEADLINE_S):
                await setting.link.bind(HEAD, forged, QUEUE_BYTES)
        assert setting.link.send(a_packet(0, GATEWAY_STAGE)) is QueueResult.STRAY


async def test_a_bind_that_is_given_up_leaves_nothing() -> None:
    async with a_setting() as setting:
        setting.proxy.is_open = False
        setting.proxy.cut()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await setting.link.bind(HEAD, setting.ticket(), QUEUE_BYTES)
        assert setting.link.send(a_packet(0, GATEWAY_STAGE)) is QueueResult.STRAY


async def test_an_unbound_session_is_over_for_the_relay_too() -> None:
    async with a_setting() as setting:
        ticket = setting.ticket()
        async with asyncio.timeout(DEADLINE_S):
            await setting.link.bind(HEAD, ticket, QUEUE_BYTES)
            setting.link.unbind(HEAD)
            setting.link.unbind(HEAD)
            with pytest.raises(StageRefusedError, match="ticket_spent"):
                await setting.link.bind(HEAD, ticket, QUEUE_BYTES)


async def test_a_session_that_sends_more_than_its_limit_overflows_alone() -> None:
    async with a_setting() as setting:
        async with asyncio.timeout(DEADLINE_S):
            await setting.link.bind(HEAD, setting.ticket(), 1000)
        large = a_packet(0, GATEWAY_STAGE, bytes(2000), kind=PacketKind.CONTROL)
        assert setting.link.send(large) is QueueResult.OVERFLOW
        small = a_packet(0, GATEWAY_STAGE, b"small", kind=PacketKind.CONTROL)
        assert setting.link.send(small) is QueueResult.TAKEN
        assert await setting.gateway.payloads(1) == [b"small"]


async def test_news_of_the_relay_end_a_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node_app.relay.data_connection.RECONNECT", Backoff(first_s=600.0, longest_s=600.0))
    listener = Listener()
    async with a_relay() as relay, a_cuttable_proxy(relay.port) as proxy:
        proxy.is_open = False
        urls = [f"ws://127.0.0.1:{proxy.port}"]
        link = DataConnection(SigningKey.generate(), listener.callables(), lambda: 0.0)
        running = asyncio.create_task(link.run(lambda: urls[0]))
        async with asyncio.timeout(DEADLINE_S):
            while not proxy.turned_away:  # noqa: ASYNC110 - the proxy only counts
                await asyncio.sleep(0.01)
        urls[0] = relay.url
        link.retry_now()  # whether the first try is over by now or not
        await listener.wait_until(lambda: listener.connected)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_way_to_the_relay_is_measured() -> None:
    """Over a line of 20 ms each way, without waiting for the connection's regular pings."""
    async with a_relay() as relay, long_lines([f"127.0.0.1:{relay.port}"]) as lines:
        await lines.set(20.0, None)
        link = DataConnection(SigningKey.generate(), Listener().callables(), lambda: 0.0)
        assert link.latency_ms is None
        running = asyncio.create_task(link.run(lambda: f"ws://{lines.addresses[0]}/data"))
        try:
            async with asyncio.timeout(DEADLINE_S):
                while (latency_ms := link.latency_ms) is None:  # noqa: ASYNC110 - polled as reports do
                    await asyncio.sleep(0.01)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert 20.0 <= latency_ms < 60.0
