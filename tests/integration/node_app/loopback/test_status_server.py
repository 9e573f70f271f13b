"""The loopback endpoint of a running node, as the tray uses it."""

from __future__ import annotations

import asyncio
import json
import stat
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import requests

from tests.integration.node_app.gateway_under_test import Generation
from tests.integration.node_app.node_process import a_node, poll_until
from tests.integration.node_app.site_under_test import GOOD_TOKEN, Site, a_site
from tests.integration.tracker_site.relay.process import Member, a_relay
from tracker_site.control_plane.control_events import OpenFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.integration.node_app.node_process import Node

TIMEOUT_S = 5.0


class Tray:
    """Reads the address file, then asks."""

    def __init__(self, state_dir: Path) -> None:
        path = state_dir / "local_api.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        address = json.loads(path.read_text())
        self.url, self.token = address["url"], address["token"]

    async def ask(self, method: str, path: str, **headers: str) -> requests.Response:
        given = {"Authorization": f"Bearer {self.token}"} | headers
        return await asyncio.to_thread(requests.request, method, self.url + path, headers=given, timeout=TIMEOUT_S)


@dataclass
class Serving:
    """A node that serves at a site over a relay, looked at by a tray."""

    node: Node
    tray: Tray
    site: Site
    member: Member
    ready: dict[str, object]

    @property
    def node_id(self) -> str:
        return str(self.ready["node_id"])

    def generation(self, max_tokens: int) -> Generation:
        return Generation(self.site, self.member, self.node_id, max_tokens)


@asynccontextmanager
async def serving(state_dir: Path, model: Path, worker: Path) -> AsyncIterator[Serving]:
    async with a_relay() as relay, a_site(Site(relay.url)) as site, Member.connected(relay.url) as member:
        given = ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(model), "--worker", str(worker)]
        async with a_node(state_dir, *given, "--name", "attic") as node:
            ready = await node.ready_line()
            one = Serving(node, Tray(state_dir), site, member, ready)
            await site.wait_for_state(one.node_id, "serving")
            yield one


async def test_the_tray_sees_the_node_and_its_log(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    async with serving(tmp_path / "state", fake_model, simulated_worker) as one:
        status = (await one.tray.ask("GET", "/status")).json()
        assert status["state"] == "serving"
        assert (status["layer_begin"], status["layer_end"], status["n_layers"]) == (0, 4, 4)
        assert (status["name"], status["node_id"], status["model"]) == ("attic", one.node_id, "fake.gguf")
        assert (status["worker_pid"], status["sessions"]) == (one.ready["worker_pid"], 0)
        lines = (await one.tray.ask("GET", "/log")).json()["lines"]
        assert any("layers 0:4 loaded" in line for line in lines)
        assert not any(one.tray.token in line or GOOD_TOKEN in line for line in lines)


async def test_the_tray_sees_sessions_and_their_rate(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    async with serving(tmp_path / "state", fake_model, simulated_worker) as one:
        running = one.generation(400)
        await running.open()
        await running.prompt()
        await running.read_until(5)
        status = (await one.tray.ask("GET", "/status")).json()
        assert status["sessions"] == 1
        assert status["tokens_per_s"] > 0
        await running.close()


async def test_a_pause_refuses_new_sessions_and_lets_the_running_go_on(
    tmp_path: Path, fake_model: Path, simulated_worker: Path
) -> None:
    async with serving(tmp_path / "state", fake_model, simulated_worker) as one:
        running = one.generation(400)
        await running.open()
        await running.prompt()
        assert (await one.tray.ask("POST", "/pause")).json()["state"] == "paused"
        await one.site.wait_for_state(one.node_id, "paused")
        answer = await one.site.open_stage(one.node_id, one.generation(5).request())
        assert isinstance(answer, OpenFailed)
        assert answer.code == "paused"
        assert len(await running.read_until(20)) >= 20
        await running.close()

        assert (await one.tray.ask("POST", "/resume")).json()["state"] == "serving"
        await one.site.wait_for_state(one.node_id, "serving")
        again = one.generation(5)
        await again.open()
        await again.close()


async def test_the_tray_quits_the_node(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    async with serving(tmp_path / "state", fake_model, simulated_worker) as one:
        assert (await one.tray.ask("POST", "/quit")).status_code == 200
        assert await one.node.wait() == 0
        await poll_until(lambda: not (one.node.state_dir / "local_api.json").exists(), TIMEOUT_S)


async def test_nobody_else_gets_in(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    given = ["--site", "http://127.0.0.1:9", "--token", "t", "--gguf", str(fake_model)]
    async with a_node(tmp_path / "state", *given, "--worker", str(simulated_worker)) as node:
        await node.worker_started()
        tray = Tray(node.state_dir)
        assert (await tray.ask("GET", "/status")).status_code == 200
        assert (await tray.ask("GET", "/status", Authorization="Bearer wrong")).status_code == 401
        assert (await tray.ask("GET", "/status", Host="rebound.example")).status_code == 403
        assert (await tray.ask("POST", "/quit", Origin="http://evil.example")).status_code == 403
        assert (await tray.ask("GET", "/other")).status_code == 404
        assert (await tray.ask("GET", "/quit")).status_code == 404
        assert (await tray.ask("PUT", "/status")).status_code == 400
        assert (await tray.ask("GET", "/status", Filler="x" * 9000)).status_code == 431
