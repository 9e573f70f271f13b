"""The process of `long_lines`, as tests and benchmarks start it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

ANSWER_TIMEOUT_S: Final = 10.0
_ROOT: Final = Path(__file__).resolve().parents[2]


class LongLines:
    """Running lines; `addresses` are what they listen on, in the order of their targets."""

    def __init__(self, process: asyncio.subprocess.Process, addresses: Sequence[str]) -> None:
        self._process = process
        self.addresses = addresses

    async def set(self, latency_ms: float, bytes_per_s: float | None) -> None:
        """Make all lines so long, one way, and so narrow, in each direction; None: not narrow.

        Raises:
            TimeoutError: the process did not answer.
            ConnectionError: it is gone.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise ConnectionError("the lines have no input")
        self._process.stdin.write(f"{latency_ms} {bytes_per_s or 0}\n".encode())
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await self._process.stdin.drain()
            if not await self._process.stdout.readline():
                raise ConnectionError("the lines are gone")


@contextlib.asynccontextmanager
async def long_lines(targets: Sequence[str]) -> AsyncIterator[LongLines]:
    """Lines to these addresses (`host:port`, or paths of Unix sockets) for the body's time.

    Raises:
        TimeoutError: they did not begin.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.simulators.long_lines", *targets,
        cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        if process.stdout is None:
            raise ConnectionError("the lines have no output")
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            addresses = json.loads(await process.stdout.readline())
        yield LongLines(process, addresses)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
