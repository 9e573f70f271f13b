"""A node as a volunteer starts it: its own process, with a worker of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

READY_TIMEOUT_S = 30.0
END_TIMEOUT_S = 15.0
POLL_S = 0.05
RUN_NODE = "import sys; from node_app.main import main; sys.exit(main(sys.argv[1:]))"


@dataclass
class Node:
    """A running node. `log` grows while it runs."""

    process: asyncio.subprocess.Process
    state_dir: Path
    log: list[str] = field(default_factory=list)

    async def ready_line(self, timeout_s: float = READY_TIMEOUT_S) -> dict[str, object]:
        """The next ready line."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), timeout_s)
        assert line, "the node ended: " + "\n".join(self.log[-5:])
        value = json.loads(line)
        assert isinstance(value, dict)
        return value

    async def wait(self) -> int:
        return await asyncio.wait_for(self.process.wait(), END_TIMEOUT_S)

    async def worker_started(self) -> None:
        """Wait until the log tells of a worker."""
        await poll_until(lambda: any("started" in line for line in self.log), READY_TIMEOUT_S)

    def worker_pids(self) -> list[int]:
        return [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]


async def poll_until(is_so: Callable[[], bool], deadline_s: float) -> None:
    """Look again and again until `is_so`; for what gives no event."""
    async with asyncio.timeout(deadline_s):
        while not is_so():  # noqa: ASYNC110 - the kernel and a log give no event
            await asyncio.sleep(POLL_S)


def is_gone(pid: int) -> bool:
    """Whether no live process has this pid; a zombie is no live process."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@asynccontextmanager
async def a_node(state_dir: Path, *arguments: str) -> AsyncIterator[Node]:
    """Start `meshnet node` with `arguments`; ends it (and checks that no worker is left) at the context's end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MESHNET_")}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN_NODE, "--state-dir", str(state_dir), "--json-log"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    node = Node(process, state_dir)
    reading = asyncio.create_task(_read_log(node))
    workers: list[int] = []
    try:
        yield node
        if process.returncode is None:
            workers = node.worker_pids()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            await node.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        finally:
            await reading
    await poll_until(lambda: all(is_gone(pid) for pid in workers), END_TIMEOUT_S)


async def _read_log(node: Node) -> None:
    assert node.process.stderr is not None
    while line := await node.process.stderr.readline():
        node.log.append(line.decode("utf-8", "replace").rstrip())
