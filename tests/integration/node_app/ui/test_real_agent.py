"""The tray and a real node, with a worker of its own: what is pressed here happens there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.integration.node_app.node_process import a_node
from tests.integration.node_app.site_under_test import GOOD_TOKEN, Site, a_site
from tests.integration.tracker_site.relay.process import a_relay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from node_app.ui.application import TrayApplication

pytestmark = pytest.mark.qt

WAIT_S = 30.0


async def test_pause_resume_log_and_quit_of_a_real_node(
    tray: TrayApplication, tmp_path: Path, fake_model: Path, simulated_worker: Path, qt_application: object
) -> None:
    ended: list[bool] = []
    tray.ended.connect(lambda: ended.append(True))

    async def wait_until(is_so: Callable[[], object]) -> None:
        """Run both event loops, Qt's and asyncio's, until something is so."""
        async with asyncio.timeout(WAIT_S):
            while not is_so():
                qt_application.processEvents()
                await asyncio.sleep(0.005)

    window = tray.window
    tray.start(is_hidden=False)
    await wait_until(lambda: window.headline.text() == "No node is running")
    async with a_relay() as relay, a_site(Site(relay.url, earned_micros=1_250_000)) as site:
        given = ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(fake_model), "--name", "attic"]
        async with a_node(tmp_path, *given, "--worker", str(simulated_worker)) as node:
            await wait_until(lambda: window.headline.text() == "Ready")
            await wait_until(lambda: window.value_of("Credits") == "1.25")
            assert window.value_of("Node") == "attic"
            assert window.value_of("Model") == "fake.gguf"
            assert window.value_of("Layers") == "all 4"
            assert window.value_of("Site") == f"{site.url} (connected)"
            window.log_button.click()
            await wait_until(lambda: "layers 0:4 loaded" in window.log_panel.toPlainText())
            window.pause_button.click()
            await wait_until(lambda: window.headline.text() == "Paused")
            await wait_until(window.resume_button.isEnabled)
            window.resume_button.click()
            await wait_until(lambda: window.headline.text() == "Ready")
            tray.ask_to_quit()
            tray.question.node_button.click()
            await wait_until(lambda: ended)
            assert await node.wait() == 0
