"""Other programs that a benchmark runs, to their end or for a while. Every wait has a deadline; nothing is left over.

What is measured must not inherit the low priority that a benchmark gives itself (`yield_to_what_is_measured`): it is
started by a thread that keeps the one it began with.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, TypeVar

_LISTENS_TIMEOUT_S: Final = 30.0
_ASK_AGAIN_S: Final = 0.05
_LOOK_S: Final = 0.5
_SAID_BYTES_MAX: Final = 2_000
_LOWEST_PRIORITY: Final = 19
_SPIN: Final = [sys.executable, "-c", "while True: pass"]
_TASKS: Final = Path("/proc/self/task")

_launcher: Final = ThreadPoolExecutor(1, thread_name_prefix="launcher")
_launcher.submit(lambda: None).result()  # begins now, with the priority of now

Outcome = TypeVar("Outcome")


class ProgramError(Exception):
    """A program failed; the message ends with what it said."""


async def output_of(command: list[str], timeout_s: float) -> bytes:
    """What a program prints.

    Raises:
        TimeoutError: it did not end.
        ProgramError: it failed.
    """
    return await asyncio.get_running_loop().run_in_executor(_launcher, _output_of, command, timeout_s)


def _ending_with_us(command: list[str]) -> list[str]:
    """The command, to be ended by the kernel when the launcher's process ends in whatever way."""
    setpriv = shutil.which("setpriv")
    return command if setpriv is None else [setpriv, "--pdeathsig", "KILL", *command]


def _output_of(command: list[str], timeout_s: float) -> bytes:
    try:
        done = subprocess.run(
            _ending_with_us(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise TimeoutError(f"{command[0]} did not end within {timeout_s:g} s") from late
    if done.returncode:
        tail = done.stderr[-_SAID_BYTES_MAX:].decode(errors="replace")
        raise ProgramError(f"{command[0]} ended with status {done.returncode}: {tail}")
    return done.stdout


@contextlib.asynccontextmanager
async def running_server(command: list[str], port: int) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run a program that listens on this port of 127.0.0.1 while the body lasts.

    Raises:
        TimeoutError: it does not listen.
        ProgramError: it ended at once.
    """
    process = await asyncio.get_running_loop().run_in_executor(_launcher, _start, command)
    try:
        async with asyncio.timeout(_LISTENS_TIMEOUT_S):
            while not await _listens(port):
                if process.poll() is not None:
                    raise ProgramError(f"{command[0]} ended with status {process.returncode}")
                await asyncio.sleep(_ASK_AGAIN_S)
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def spinning_programs(count: int) -> AsyncIterator[None]:
    """So many programs that do nothing but keep a core busy each, at normal priority, while the body lasts."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            process = await asyncio.get_running_loop().run_in_executor(_launcher, _start, _SPIN)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(_ending_with_us(command), stdin=nothing, stdout=nothing, stderr=nothing)


def in_own_thread(run: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Run a benchmark in a thread of its own, whose priority ends with it.

    Raises:
        Exception: whatever `run` raises.
    """

    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[object] | None]] = Future()

    async def whole() -> Outcome:
        begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await run()

    with ThreadPoolExecutor(1, thread_name_prefix="bench") as executor:
        # Its thread is there, and known to the executor, before anything can be interrupted in it.
        executor.submit(lambda: None).result()
        try:
            outcome = executor.submit(asyncio.run, whole())
            # In turns: a signal that comes just before a wait begins does not end it.
            while not wait([outcome], _LOOK_S).done:
                pass
            return outcome.result()
        except KeyboardInterrupt:
            loop, task = begun.result(_LISTENS_TIMEOUT_S)
            if task is not None:
                loop.call_soon_threadsafe(task.cancel)
            raise


def yield_to_what_is_measured() -> None:
    """Give this thread, and those that libraries have started, the lowest priority (Linux).

    What plays the Gateway's part needs processor time for every token: on a machine whose cores all compute it would
    slow down what it is there to measure, and llama.cpp's own programs have nothing like it. Main and launcher threads
    keep theirs: whoever comes from them starts as ever.
    """
    kept = {os.getpid(), *(one.native_id for one in threading.enumerate() if one.name.startswith("launcher"))}
    for task in _TASKS.iterdir() if _TASKS.exists() else ():
        if int(task.name) not in kept:
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(task.name), _LOWEST_PRIORITY)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
