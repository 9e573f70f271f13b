"""The loopback endpoint of a running node, as the tray uses it."""

from __future__ import annotations

import asyncio
import json
import stat
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import requests

from tests.integration.node_app.gateway_under_test import Generation
from tests.integration.node_app.node_process import a_node, poll_until
from tests.integration.node_app.site_under_test import GOOD_TOKEN, Site, a_site
from tests.integration.relay.process import Member, a_relay
from tracker_site.nodes.control_events import OpenFailed

if TYPE_CHECKING:
    from pathlib import Path

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


async def test_the_tray_sees_pauses_resumes_and_quits(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(a_relay())
        site = await stack.enter_async_context(a_site(Site(relay.url)))
        member = await stack.enter_async_context(Member.connected(relay.url))
        given = [
            "--site",
            site.url,
            "--token",
            GOOD_TOKEN,
            "--gguf",
            str(fake_model),
            "--worker",
            str(simulated_worker),
        ]
        node = await stack.enter_async_context(a_node(tmp_path / "state", *given, "--name", "attic"))
        ready = await node.ready_line()
        tray, node_id = Tray(node.state_dir), str(ready["node_id"])

        status = (await tray.ask("GET", "/status")).json()
        assert status["state"] == "serving"
        assert (status["layer_begin"], status["layer_end"], status["n_layers"]) == (0, 4, 4)
        assert (status["name"], status["node_id"], status["model"]) == ("attic", node_id, "fake.gguf")
        assert (status["worker_pid"], status["sessions"]) == (ready["worker_pid"], 0)
        lines = (await tray.ask("GET", "/log")).json()["lines"]
        assert any("layers 0:4 loaded" in line for line in lines)
        assert not any(tray.token in line or GOOD_TOKEN in line for line in lines)

        await site.wait_for_state(node_id, "serving")
        running = Generation(site, member, node_id, max_tokens=400)
        await running.open()
        await running.prompt()
        await running.read_until(5)
        status = (await tray.ask("GET", "/status")).json()
        assert status["sessions"] == 1
        assert status["tokens_per_s"] > 0

        assert (await tray.ask("POST", "/pause")).json()["state"] == "paused"
        await site.wait_for_state(node_id, "paused")
        answer = await site.open_stage(node_id, Generation(site, member, node_id, 5).request())
        assert isinstance(answer, OpenFailed)
        assert answer.code == "paused"
        assert len(await running.read_until(20)) >= 20  # what runs goes on

        assert (await tray.ask("POST", "/resume")).json()["state"] == "serving"
        await site.wait_for_state(node_id, "serving")
        await running.close()

        assert (await tray.ask("POST", "/quit")).status_code == 200
        assert await node.wait() == 0
        await poll_until(lambda: not (node.state_dir / "local_api.json").exists(), TIMEOUT_S)


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
