"""The local API of a node that lends itself to a site: both are served, and neither needs the other."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from tests.integration.node_app.gateway_under_test import PROMPT, Generation, expected_tokens
from tests.integration.node_app.local_node import (
    N_LAYERS,
    WIDTH,
    LocalNode,
    a_long_chat,
    ready_node,
    unsplit_answer,
)
from tests.integration.node_app.node_process import READY_TIMEOUT_S, a_node
from tests.integration.node_app.raw_stream import a_raw_stream
from tests.integration.node_app.site_under_test import GOOD_TOKEN, Site, a_site
from tests.integration.tracker_site.relay.process import Member, a_relay
from tracker_site.control_plane.control_events import OpenFailed

if TYPE_CHECKING:
    from pathlib import Path


async def test_both_are_served_and_share_the_places(tmp_path: Path, fake_model: Path, worker: Path) -> None:
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(a_relay())
        site = await stack.enter_async_context(a_site(Site(relay.url)))
        member = await stack.enter_async_context(Member.connected(relay.url))
        given = ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(fake_model), "--worker", str(worker)]
        node = await stack.enter_async_context(a_node(tmp_path / "state", *given, "--max-sessions", "2"))
        local = await ready_node(node)
        node_id = str((await local.status())["node_id"])
        await site.wait_for_state(node_id, "serving")

        remote = Generation(site, member, node_id, max_tokens=300)
        await remote.open()
        await remote.prompt()
        await remote.read_until(5)
        answer = (await local.chat(max_tokens=40)).json()
        assert answer["choices"][0]["message"]["content"] == unsplit_answer("hello", max_tokens=40)[0]
        assert await remote.read_until(60) == expected_tokens(N_LAYERS, WIDTH, PROMPT, len(remote.tokens))

        async with a_raw_stream(local, a_long_chat(stream=True)) as held:
            await held.read_until(b'"content":"')
            status = await local.status()
            assert (status["sessions"], status["local_sessions"]) == (2, 1)
            refused = await site.open_stage(node_id, Generation(site, member, node_id, 5).request())
            assert isinstance(refused, OpenFailed)
            assert refused.code == "too_many_sessions"
        await remote.close()
        await local.until_idle()
        assert site.ended == []


async def test_pausing_is_about_others(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(a_relay())
        site = await stack.enter_async_context(a_site(Site(relay.url)))
        given = ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(fake_model)]
        node = await stack.enter_async_context(a_node(tmp_path / "state", *given, "--worker", str(simulated_worker)))
        local = await ready_node(node)
        await local.tell("pause")
        await site.wait_for_state(str((await local.status())["node_id"]), "paused")
        assert (await local.chat(max_tokens=3)).status_code == 200


async def test_a_site_that_is_away_keeps_nobody_from_their_own_model(
    tmp_path: Path, fake_model: Path, simulated_worker: Path
) -> None:
    given = ["--site", "http://127.0.0.1:9", "--token", "t", "--gguf", str(fake_model), "--worker"]
    async with a_node(tmp_path / "state", *given, str(simulated_worker)) as node:
        await node.worker_started()
        status = await LocalNode(node, "", 0).status()
        local = LocalNode(node, status["api_url"], status["worker_pid"])
        async with asyncio.timeout(READY_TIMEOUT_S):
            while (answer := await local.chat(max_tokens=20)).status_code == 503:
                assert answer.json()["error"]["code"] == "not_ready"
        assert answer.json()["choices"][0]["message"]["content"] == unsplit_answer("hello", max_tokens=20)[0]
        assert not (await local.status())["is_control_connected"]
