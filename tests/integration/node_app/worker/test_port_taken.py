"""A node whose port for peers is taken: volunteer and site are told, and it serves by itself once the port is free."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.integration.node_app.node_process import a_node
from tests.integration.node_app.site_under_test import GOOD_TOKEN, Site, a_site
from tests.integration.tracker_site.relay.process import a_relay

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.native


async def test_a_taken_link_port_is_reported_and_the_node_serves_once_it_is_free(
    tmp_path: Path, fake_model: Path, worker_program: Path
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taker:
        address = f"127.0.0.1:{taker.getsockname()[1]}"
        async with a_relay() as relay, a_site(Site(relay.url)) as site:
            given = ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(fake_model)]
            given += ["--worker", str(worker_program), "--link-listen", address]
            async with a_node(tmp_path / "state", *given) as node:
                report = await site.wait_for_state("node-0", "degraded")
                assert "(exit status 1): cannot listen at " in report.reason
                assert report.shards == ()
                assert any("cannot listen at " in line for line in node.log)
                taker.close()
                assert (await site.wait_for_state("node-0", "serving")).reach.link_address == address
