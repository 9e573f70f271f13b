"""Other programs run to their end, or for a while, and are gone afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.bench.programs import (
    ProgramError,
    in_own_thread,
    output_of,
    running_server,
    spinning_programs,
    yield_to_what_is_measured,
)
from tests.simulators.ports import free_port

SERVE = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"


async def test_what_a_program_prints_comes_back() -> None:
    assert await output_of([sys.executable, "-c", "print('one')"], 20.0) == b"one\n"


async def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(ProgramError, match=r"status 3: .*out of luck"):
        await output_of([sys.executable, "-c", "import sys; print('out of luck', file=sys.stderr); sys.exit(3)"], 20.0)


async def test_a_program_that_does_not_end_is_ended() -> None:
    with pytest.raises(TimeoutError):
        await output_of([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads are Linux's")
def test_a_benchmark_yields_and_what_it_starts_does_not() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    ask = [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"]

    async def priorities() -> tuple[int, int]:
        yield_to_what_is_measured()
        return os.getpriority(os.PRIO_PROCESS, 0), int(await output_of(ask, 20.0))

    assert in_own_thread(priorities) == (19, own)
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


def test_an_interrupted_benchmark_ends() -> None:
    ended = []

    async def waits() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        in_own_thread(waits)
    assert ended == [True]


async def test_a_server_runs_while_the_body_lasts() -> None:
    port = free_port()
    async with running_server([sys.executable, "-c", SERVE, str(port)], port) as process:
        pid = process.pid
        os.kill(pid, 0)
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_server_that_ends_at_once_is_told() -> None:
    with pytest.raises(ProgramError, match="ended with status 4"):
        async with running_server([sys.executable, "-c", "raise SystemExit(4)"], free_port()):
            pytest.fail("it does not listen")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
async def test_spinning_programs_spin_and_end() -> None:

    def running() -> set[str]:
        return {pid for tasks in Path("/proc/self/task").iterdir() for pid in (tasks / "children").read_text().split()}

    before = running()
    async with spinning_programs(2):
        assert len(running() - before) == 2

    assert running() == before
    async with spinning_programs(0):
        assert running() == before
