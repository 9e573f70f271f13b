from __future__ import annotations

import asyncio
import threading

import pytest

from node_app.system.blocking import run_blocking


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
