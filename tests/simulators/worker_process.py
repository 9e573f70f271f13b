"""A worker program as a process: the simulator's launcher or the native worker, started and ended by a test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

READY_TIMEOUT_S = 20.0
END_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class WorkerProgram:
    """A running worker; `ready` is its ready line."""

    process: asyncio.subprocess.Process
    socket_path: Path
    ready: dict[str, object]


@contextlib.asynccontextmanager
async def running_program(program: Path, socket_path: Path, *arguments: str) -> AsyncIterator[WorkerProgram]:
    """Run a worker program for the body's time; it is asked to end, then killed.

    Raises:
        TimeoutError: it did not become ready.
        ValueError: its first line is no JSON (it ended at once).
    """
    process = await asyncio.create_subprocess_exec(
        str(program), "--socket", str(socket_path), *arguments, stdout=subprocess.PIPE
    )
    try:
        if process.stdout is None:
            raise ValueError("the process has no stdout")
        async with asyncio.timeout(READY_TIMEOUT_S):
            line = await process.stdout.readline()
        yield WorkerProgram(process, socket_path, json.loads(line))
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(TimeoutError, ProcessLookupError):
        process.terminate()
        async with asyncio.timeout(END_TIMEOUT_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
