#!/usr/bin/env python3
"""A worker in pure Python with the FakeEngine, to be run in place of `meshnet-worker`.

Command line and ready line are the native worker's (`node_app.reference_worker.sessions.serving`); `--fault-*` makes it
do something wrong (see `faults.py`). It has no link to peers: routes of several stages go through the bridge.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "shared")]

from node_app.reference_worker.sessions.service import WorkerService  # noqa: E402 - the path comes first
from node_app.reference_worker.sessions.serving import add_worker_arguments, serve_until_told, serving  # noqa: E402
from tests.simulators.engine_task import run_engine  # noqa: E402
from tests.simulators.fake_program import FakeProgram  # noqa: E402
from tests.simulators.faults import Faults, add_fault_arguments, faults_of  # noqa: E402
from tests.simulators.worker_state import SimulatedState  # noqa: E402


@dataclass(frozen=True, slots=True)
class SimulatedWorker:
    """A worker that listens on `socket_path`; `state` is there for tests to look into and to set faults."""

    socket_path: Path
    state: SimulatedState


@contextlib.asynccontextmanager
async def running_worker(socket_path: Path, faults: Faults | None = None) -> AsyncIterator[SimulatedWorker]:
    """Run a worker in this event loop for the body's time. An error of its engine task is raised at the end."""
    state = SimulatedState(faults or Faults())
    async with _serving(socket_path, state):
        yield SimulatedWorker(socket_path, state)


def _serving(socket_path: Path, state: SimulatedState) -> AbstractAsyncContextManager[asyncio.Task[None]]:
    service = WorkerService(state, FakeProgram(state.faults))
    return serving(socket_path, service, run_engine(state))


def main() -> None:
    parser = argparse.ArgumentParser(description="pure-Python worker with the FakeEngine")
    add_worker_arguments(parser)
    add_fault_arguments(parser)
    arguments = parser.parse_args()
    state = SimulatedState(faults_of(arguments))
    asyncio.run(serve_until_told(arguments, _serving(arguments.socket, state)))


if __name__ == "__main__":
    main()
