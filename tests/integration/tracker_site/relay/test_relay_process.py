"""The relay as a process: real sockets, slow and hostile members, and its own end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import psutil
import pytest
from websockets.asyncio.client import connect

from meshnet.constants import GATEWAY_STAGE, MAX_MESSAGE_BYTES
from meshnet.keys import SigningKey
from meshnet.member_events import Binding, BindRefused, Closed, PacketRefused, SessionEnded, StageLost
from meshnet.packets import PacketKind
from meshnet.tickets import sign_ticket
from tests.integration.tracker_site.relay.process import (
    DEADLINE_S,
    RELAY_ID,
    SITE_KEY,
    WINDOW_BYTES,
    Member,
    RelayProcess,
    a_key,
    a_packet,
    a_relay,
    a_ticket,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def relay() -> AsyncIterator[RelayProcess]:
    async with a_relay() as process:
        yield process


@pytest.fixture
async def trio(relay: RelayProcess) -> AsyncIterator[tuple[Member, Member, Member]]:
    """A gateway, a head and a tail, bound to session 0."""
    async with AsyncExitStack() as stack:
        gateway, head, tail = [await stack.enter_async_context(Member.connected(relay.url)) for _ in range(3)]
        for member, stage in ((gateway, GATEWAY_STAGE), (head, 0), (tail, 1)):
            await member.bind(stage)
        yield gateway, head, tail


async def health(relay: RelayProcess) -> dict[str, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    counts: dict[str, int] = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    return counts


async def test_a_token_loop_goes_round(trio: tuple[Member, Member, Member]) -> None:
    gateway, head, tail = trio
    await gateway.send(a_packet(GATEWAY_STAGE, 0, b"prompt"))
    assert await head.payloads(1) == [b"prompt"]
    for number in range(20):
        await head.send(a_packet(0, 1, b"rows%d" % number))
        assert await tail.payloads(1) == [b"rows%d" % number]
        await tail.send(
            a_packet(1, 0, b"next%d" % number),
            a_packet(1, GATEWAY_STAGE, b"token%d" % number, kind=PacketKind.TOKEN),
        )
        assert await head.payloads(1) == [b"next%d" % number]
    assert await gateway.payloads(20) == [b"token%d" % number for number in range(20)]


async def test_a_killed_member_is_told_to_the_others_at_once(trio: tuple[Member, Member, Member]) -> None:
    gateway, head, tail = trio
    started_s = time.monotonic()
    tail.connection.transport.abort()
    assert await gateway.wait_for(StageLost) == StageLost(a_key(), 1)
    assert await head.wait_for(StageLost) == StageLost(a_key(), 1)
    assert time.monotonic() - started_s < 1.0
    await head.send(a_packet(0, 1))
    assert (await head.wait_for(PacketRefused)).code == "stage_lost"


async def test_the_largest_message_passes(trio: tuple[Member, Member, Member]) -> None:
    _, head, tail = trio
    payload = b"x" * (MAX_MESSAGE_BYTES - 1024)
    await head.send(a_packet(0, 1, payload))
    assert await tail.payloads(1) == [payload]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"\xff\xff", "malformed"),
        (b"", "malformed"),
        ("text", "malformed"),
        (b"\0" * (MAX_MESSAGE_BYTES + 1), "message_too_large"),
    ],
)
async def test_garbage_costs_the_connection_with_a_typed_refusal(
    trio: tuple[Member, Member, Member], message: bytes | str, code: str
) -> None:
    gateway, head, tail = trio
    await head.connection.send(message)
    assert (await head.wait_for(Closed)).code == code
    await asyncio.wait_for(head.connection.wait_closed(), DEADLINE_S)
    assert head.connection.close_code == 1008
    await tail.send(a_packet(1, GATEWAY_STAGE, b"still here", kind=PacketKind.TOKEN))
    assert await gateway.payloads(1) == [b"still here"]


async def test_a_huge_message_is_not_even_read(trio: tuple[Member, Member, Member]) -> None:
    gateway, head, _ = trio
    await head.connection.send(b"\0" * (3 * MAX_MESSAGE_BYTES))
    await asyncio.wait_for(head.connection.wait_closed(), DEADLINE_S)
    assert head.connection.close_code == 1009
    assert await gateway.wait_for(StageLost) == StageLost(a_key(), 0)


async def test_forged_and_replayed_tickets_do_not_bind(relay: RelayProcess) -> None:
    async with Member.connected(relay.url) as head, Member.connected(relay.url) as thief:
        forged = sign_ticket(a_ticket(head.signing_key, 0), SigningKey.generate())
        head.machine.bind(Binding(a_key(), 0), forged)
        await head.flush()
        assert (await head.wait_for(BindRefused)).code == "ticket_forged"
        ticket = await head.bind(0)
        thief.machine.bind(Binding(a_key(), 0), sign_ticket(ticket, SITE_KEY))
        await thief.flush()
        assert (await thief.wait_for(BindRefused)).code == "ticket_wrong_member"
        head.machine.unbind(Binding(a_key(), 0))
        head.machine.bind(Binding(a_key(), 0), sign_ticket(ticket, SITE_KEY))
        await head.flush()
        assert (await head.wait_for(BindRefused)).code == "ticket_spent"


async def test_a_member_who_does_not_read_loses_its_session_and_nobody_else_s(
    relay: RelayProcess, trio: tuple[Member, Member, Member]
) -> None:
    _, head, tail = trio
    before_bytes = psutil.Process(relay.process.pid).memory_info().rss
    async with Member.connected(relay.url) as slow:
        await slow.bind(1, 1)
        await head.bind(0, 1)
        # From here on `slow` reads nothing; its client stops reading its socket after a few messages.
        sent = 0
        payload = b"x" * (WINDOW_BYTES // 4)
        while not any(isinstance(event, SessionEnded) for event in head.seen):
            assert sent < 200, "the relay took 50 MB for a member that does not read"
            await head.send(a_packet(0, 1, payload, number=1))
            sent += 1
            # The other session lives, at every step.
            await head.send(a_packet(0, 1, b"other"))
            assert await tail.payloads(1) == [b"other"]
            await tail.send(a_packet(1, 0, b"back"))
            assert await head.payloads(1) == [b"back"]
        ended = await head.wait_for(SessionEnded)
        assert (ended.key, ended.stage, ended.code) == (a_key(1), 1, "window_exceeded")
    grown_bytes = psutil.Process(relay.process.pid).memory_info().rss - before_bytes
    assert grown_bytes < 32 * 1024 * 1024
    assert (await health(relay))["sessions_ended"] == 1


async def test_health_counts_and_other_paths_are_not_found(
    relay: RelayProcess, trio: tuple[Member, Member, Member]
) -> None:
    counts = await health(relay)
    assert (counts["members"], counts["sessions"]) == (3, 1)
    with pytest.raises(Exception, match="404"):
        await connect(f"ws://127.0.0.1:{relay.port}/elsewhere")


async def test_a_url_without_a_path_serves_as_well(relay: RelayProcess) -> None:
    async with Member.connected(f"ws://127.0.0.1:{relay.port}") as member:
        await member.bind(0)


async def test_connections_leave_nothing_behind(relay: RelayProcess) -> None:
    for number in range(20):
        async with Member.connected(relay.url) as member:
            await member.bind(0, number)
    async with asyncio.timeout(DEADLINE_S):
        while (counts := await health(relay))["members"]:
            pass
    assert counts["sessions"] == 0
    assert psutil.Process(relay.process.pid).num_fds() < 20


async def test_a_port_that_is_taken_ends_the_process(relay: RelayProcess) -> None:
    second = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tracker_site.relay", "--port", str(relay.port), "--relay-id", RELAY_ID),
        *("--site-public-key", SITE_KEY.public_key.hex()),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    stdout, stderr = await asyncio.wait_for(second.communicate(), DEADLINE_S)
    assert (second.returncode, stdout) == (1, b"")
    assert b"cannot listen" in stderr


async def test_sigterm_ends_it_with_a_goodbye(trio: tuple[Member, Member, Member], relay: RelayProcess) -> None:
    relay.process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(relay.process.wait(), DEADLINE_S) == 0
    assert (await trio[0].wait_for(Closed)).code == "connection_lost"
    assert trio[0].connection.close_code == 1001


def test_it_ends_with_its_parent() -> None:
    command = ["-m", "tracker_site.relay", "--relay-id", RELAY_ID, "--site-public-key", SITE_KEY.public_key.hex()]
    parent_code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, *{command!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen([sys.executable, "-c", parent_code], stdout=subprocess.PIPE, env=env)
    assert parent.stdout is not None
    with parent.stdout:
        relay = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait(DEADLINE_S)
    gone, alive = psutil.wait_procs([relay], timeout=DEADLINE_S)
    assert ([process.pid for process in gone], alive) == ([relay.pid], [])
