"""The small parts: rates, threads beside the loop, loops that end together, the peers' address."""

from __future__ import annotations

import asyncio
import threading

import pytest

from node_app.relay.data_connection import data_url
from node_app.sessions.meter import RollingRate
from node_app.settings import parse_settings
from node_app.site.control_connection import control_url
from node_app.site.reach import choose_listen_address
from node_app.system.blocking import run_blocking
from node_app.system.racing import race


def test_a_rate_counts_the_last_two_seconds() -> None:
    rate = RollingRate()
    for tick in range(100):
        rate.count(tick / 10)
    assert rate.per_s(9.9) == 10.0
    assert rate.per_s(10.9) == 5.0
    assert rate.per_s(100.0) == 0.0


async def test_blocking_work_runs_in_a_daemon_thread() -> None:
    assert await run_blocking(lambda: threading.current_thread().daemon, "test")


async def test_blocking_work_raises_where_it_is_awaited() -> None:
    def fail() -> None:
        raise ValueError("from the thread")

    with pytest.raises(ValueError, match="from the thread"):
        await run_blocking(fail, "test")


async def test_a_cancelled_wait_drops_the_result() -> None:
    release = threading.Event()
    waiting = asyncio.create_task(run_blocking(release.wait, "test"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()


async def test_the_first_to_end_ends_the_others() -> None:
    ended: list[str] = []

    async def forever(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        await race(forever("a"), fail(), forever("b"))
    assert sorted(ended) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ([], "127.0.0.1:0"),
        (["--carrier", "direct"], "127.0.0.1:0"),
        (["--carrier", "relay"], ""),
        (["--carrier", "relay", "--link-listen", "127.0.0.1:5"], ""),
        (["--link-listen", "127.0.0.1:5"], "127.0.0.1:5"),
        (["--link-listen", "none"], ""),
    ],
)
def test_peers_dial_the_address_that_faces_the_site(options: list[str], address: str) -> None:
    settings = parse_settings(["--site", "http://127.0.0.1:8000", "--gguf", "m", *options], {})
    assert choose_listen_address(settings.site_url, settings.carrier, settings.link_listen) == address


@pytest.mark.parametrize(
    ("relay_url", "expected"),
    [
        ("ws://127.0.0.1:5", "ws://127.0.0.1:5/data"),
        ("wss://relay.example/", "wss://relay.example/data"),
        ("ws://127.0.0.1:5/data", "ws://127.0.0.1:5/data"),
        ("wss://site.example/relay/data", "wss://site.example/relay/data"),
    ],
)
def test_a_relay_is_named_with_or_without_its_path(relay_url: str, expected: str) -> None:
    assert data_url(relay_url) == expected


@pytest.mark.parametrize(
    ("site_url", "expected"),
    [
        ("http://127.0.0.1:8000", "ws://127.0.0.1:8000/nodes/control"),
        ("https://site.example/meshnet", "wss://site.example/meshnet/nodes/control"),
    ],
)
def test_the_control_socket_is_at_the_site(site_url: str, expected: str) -> None:
    assert control_url(site_url) == expected
