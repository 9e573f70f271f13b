"""A node as a whole: its own process and worker, a real relay process, and a site that speaks the real protocol."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import psutil

from tests.integration.node_app.gateway_under_test import PROMPT, Generation, expected_tokens
from tests.integration.node_app.node_process import Node, a_node, is_gone, poll_until
from tests.integration.node_app.site_under_test import GOOD_TOKEN, Site, a_site
from tests.integration.tracker_site.relay.process import Member, RelayProcess, a_relay
from tracker_site.control_plane.control_events import OpenFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

N_LAYERS, WIDTH = 4, 16


def options(site: Site, model: Path, worker: Path, *more: str) -> list[str]:
    return ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(model), "--worker", str(worker), *more]


@asynccontextmanager
async def a_serving_node(
    tmp_path: Path, model: Path, worker: Path, *more: str
) -> AsyncIterator[tuple[Site, Node, RelayProcess, dict[str, object]]]:
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(a_relay())
        site = await stack.enter_async_context(a_site(Site(relay.url)))
        node = await stack.enter_async_context(a_node(tmp_path / "state", *options(site, model, worker, *more)))
        yield site, node, relay, await node.ready_line()


async def test_a_session_is_served_and_leaves_nothing(tmp_path: Path, fake_model: Path, worker: Path) -> None:
    async with a_serving_node(tmp_path, fake_model, worker) as (site, node, relay, ready):
        assert ready["ready"] is True
        assert ready["layers"] == "0:4"
        assert ready["worker_pid"] in node.worker_pids()
        node_id = str(ready["node_id"])
        report = await site.wait_for_state(node_id, "serving")
        ((identity, figures),) = report.shards
        assert (identity.layer_begin, identity.layer_end, identity.architecture) == (0, 4, "fake")
        assert figures.decode_ms_per_layer >= 0
        async with Member.connected(relay.url) as member:
            for _ in range(3):
                tokens = await Generation(site, member, node_id, max_tokens=40).run()
                assert tokens == expected_tokens(N_LAYERS, WIDTH, PROMPT, 40)
        await site.wait_until(lambda: figures_of(site, node_id) == (0, figures.kv_cells_total))
        assert site.ended == []


async def test_a_stage_of_another_worker_is_refused_and_of_its_own_is_not(
    tmp_path: Path, fake_model: Path, worker: Path
) -> None:
    async with a_serving_node(tmp_path, fake_model, worker) as (site, _, relay, ready):
        node_id = str(ready["node_id"])
        report = await site.wait_for_state(node_id, "serving")
        async with Member.connected(relay.url) as member:
            generation = Generation(site, member, node_id, max_tokens=20)
            request = generation.request()
            request.link_fingerprint = bytes(32)
            refused = await site.open_stage(node_id, request)
            assert isinstance(refused, OpenFailed)
            assert refused.code == "worker_changed"
            assert generation.request().link_fingerprint == report.reach.link_fingerprint
            assert await generation.run() == expected_tokens(N_LAYERS, WIDTH, PROMPT, 20)


def figures_of(site: Site, node_id: str) -> tuple[int, int]:
    """(sessions, free cells) as last reported."""
    report = site.report_of(node_id)
    if report is None or not report.shards:
        return -1, -1
    ((_, figures),) = report.shards
    return figures.sessions, figures.kv_cells_free


async def begin(site: Site, member: Member, node_id: str, *, after: int = 5) -> Generation:
    """A session that has given `after` tokens and would give many more."""
    await site.wait_for_state(node_id, "serving")
    generation = Generation(site, member, node_id, max_tokens=400)
    await generation.open()
    await generation.prompt()
    await generation.read_until(after)
    return generation


async def ended_of(site: Site, generation: Generation, deadline_s: float) -> tuple[float, str]:
    """(monotonic time, code) at which the node said that the session ended."""
    await site.wait_until(lambda: any(one.key == generation.key for _, one in site.ended), deadline_s)
    return next((at_s, one.code) for at_s, one in site.ended if one.key == generation.key)


async def serves_again(site: Site, member: Member, node_id: str) -> None:
    await site.wait_for_state(node_id, "serving")
    tokens = await Generation(site, member, node_id, max_tokens=20).run()
    assert tokens == expected_tokens(N_LAYERS, WIDTH, PROMPT, 20)


async def test_a_killed_worker_is_told_within_a_second_and_replaced(
    tmp_path: Path, fake_model: Path, worker: Path
) -> None:
    async with a_serving_node(tmp_path, fake_model, worker) as (site, node, relay, ready):
        node_id, pid = str(ready["node_id"]), int(str(ready["worker_pid"]))
        async with Member.connected(relay.url) as member:
            generation = await begin(site, member, node_id)
            killed_at_s = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            told_at_s, code = await ended_of(site, generation, deadline_s=10)
            assert code == "worker_lost"
            assert told_at_s - killed_at_s < 1.0
            again = await node.ready_line()
            assert again["worker_pid"] not in {pid, 0}
            await serves_again(site, member, node_id)


async def test_a_stopped_worker_is_found_killed_and_replaced(tmp_path: Path, fake_model: Path, worker: Path) -> None:
    async with a_serving_node(tmp_path, fake_model, worker) as (site, node, relay, ready):
        node_id, pid = str(ready["node_id"]), int(str(ready["worker_pid"]))
        async with Member.connected(relay.url) as member:
            generation = await begin(site, member, node_id)
            stopped_at_s = time.monotonic()
            os.kill(pid, signal.SIGSTOP)
            told_at_s, code = await ended_of(site, generation, deadline_s=10)
            assert code == "worker_lost"
            assert told_at_s - stopped_at_s < 6.0  # HealthLimits.silence_s and what a busy machine adds
            assert is_gone(pid)
            await node.ready_line()
            await serves_again(site, member, node_id)


async def test_a_restarted_site_gets_the_node_back_and_the_session_goes_on(
    tmp_path: Path, fake_model: Path, simulated_worker: Path
) -> None:
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(a_relay())
        member, other_member = [await stack.enter_async_context(Member.connected(relay.url)) for _ in range(2)]
        first = Site(relay.url)
        async with a_site(first):
            given = options(first, fake_model, simulated_worker)
            node = await stack.enter_async_context(a_node(tmp_path / "state", *given))
            node_id = str((await node.ready_line())["node_id"])
            kept = await begin(first, member, node_id)
            dropped = await begin(first, other_member, node_id)
        second = Site(relay.url, nodes=first.nodes, keep=frozenset({kept.key}), port=first.port)
        await stack.enter_async_context(a_site(second))
        await second.wait_for_state(node_id, "serving")
        assert second.connections[node_id].listed == {kept.key, dropped.key}
        assert second.enrolments == 0
        kept.site = second
        await kept.read_until(60)
        assert kept.tokens == expected_tokens(N_LAYERS, WIDTH, PROMPT, len(kept.tokens))
        await second.wait_until(lambda: figures_of(second, node_id)[0] == 1)
        await kept.close()
        await second.wait_until(lambda: figures_of(second, node_id)[0] == 0)
        await serves_again(second, member, node_id)


async def test_a_restarted_relay_ends_its_sessions_and_gets_the_node_back(
    tmp_path: Path, fake_model: Path, worker: Path
) -> None:
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(a_site(Site("")))
        async with a_relay() as relay:
            site.relay_url = relay.url
            given = options(site, fake_model, worker)
            node = await stack.enter_async_context(a_node(tmp_path / "state", *given))
            node_id = str((await node.ready_line())["node_id"])
            async with Member.connected(relay.url) as member:
                generation = await begin(site, member, node_id)
        _, code = await ended_of(site, generation, deadline_s=10)
        assert code in {"relay_lost", "gateway_lost"}
        again = await stack.enter_async_context(a_relay("--port", str(relay.port)))
        member = await stack.enter_async_context(Member.connected(again.url))
        await serves_again(site, member, node_id)


async def test_two_nodes_serve_side_by_side(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    async with a_relay() as relay, a_site(Site(relay.url)) as site:
        given = options(site, fake_model, simulated_worker)
        async with a_node(tmp_path / "one", *given) as one, a_node(tmp_path / "two", *given) as two:
            node_ids = [str((await node.ready_line())["node_id"]) for node in (one, two)]
            assert len(set(node_ids)) == 2
            for node_id in node_ids:
                await site.wait_for_state(node_id, "serving")
            async with Member.connected(relay.url) as a, Member.connected(relay.url) as b:
                generations = [Generation(site, a, node_ids[0], 60), Generation(site, b, node_ids[1], 60)]
                answers = await asyncio.gather(*(generation.run() for generation in generations))
            assert answers == [expected_tokens(N_LAYERS, WIDTH, PROMPT, 60)] * 2


async def test_a_killed_agent_leaves_no_worker(tmp_path: Path, fake_model: Path, worker: Path) -> None:
    async with a_serving_node(tmp_path, fake_model, worker) as (_, node, _, _):
        workers = node.worker_pids()
        assert workers
        node.process.kill()
        await node.wait()
        await poll_until(lambda: all(is_gone(pid) for pid in workers), 2.0)


async def test_an_installation_enrols_once_and_keeps_its_name(
    tmp_path: Path, fake_model: Path, simulated_worker: Path
) -> None:
    async with a_relay() as relay, a_site(Site(relay.url)) as site:
        given = options(site, fake_model, simulated_worker)
        async with a_node(tmp_path / "state", *given) as node:
            first = await node.ready_line()
        without_token = [part for part in given if part not in {"--token", GOOD_TOKEN}]
        async with a_node(tmp_path / "state", *without_token) as node:
            second = await node.ready_line()
        assert first["node_id"] == second["node_id"]
        assert site.enrolments == 1


async def test_a_site_that_forgot_the_node_gets_it_back_by_its_token(
    tmp_path: Path, fake_model: Path, simulated_worker: Path
) -> None:
    async with a_relay() as relay, a_site(Site(relay.url)) as site:
        given = options(site, fake_model, simulated_worker)
        async with a_node(tmp_path / "state", *given) as node:
            await node.ready_line()
        (key,) = site.nodes
        site.nodes.clear()
        async with a_node(tmp_path / "state", *given) as node:
            await node.ready_line()
        assert list(site.nodes) == [key]


async def test_the_token_is_in_no_log_and_not_in_the_workers_environment(
    tmp_path: Path, fake_model: Path, simulated_worker: Path
) -> None:
    async with a_serving_node(tmp_path, fake_model, simulated_worker) as (site, node, relay, ready):
        async with Member.connected(relay.url) as member:
            await begin(site, member, str(ready["node_id"]))
        environment = psutil.Process(int(str(ready["worker_pid"]))).environ()
        assert not [name for name in environment if name.startswith("MESHNET_")]
    assert node.log
    assert not any(GOOD_TOKEN in line or "Once upon" in line for line in node.log)
