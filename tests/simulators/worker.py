#!/usr/bin/env python3
"""A worker in pure Python with the FakeEngine, to be run in place of `meshnet-worker`.

Same command line as the native one: `--socket PATH --parent-pid PID [--link-listen ADDRESS] [--local-links DIR]
[--allow-probe]`, a ready line of JSON on stdout, logs on stderr. `--fault-*` makes it do something wrong (see
`faults.py`). It has no link to peers: routes of several stages go through the bridge.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "shared")]

import grpc.aio  # noqa: E402 - the path comes first

from meshnet.v1 import worker_pb2_grpc  # noqa: E402
from tests.simulators.engine_task import run_engine  # noqa: E402
from tests.simulators.faults import Faults, add_fault_arguments, faults_of  # noqa: E402
from tests.simulators.worker_service import WorkerService  # noqa: E402
from tests.simulators.worker_state import WorkerState  # noqa: E402

MESSAGE_MAX_BYTES = 64 * 1024 * 1024
PARENT_WATCH_INTERVAL_S = 0.2


@dataclass(frozen=True, slots=True)
class SimulatedWorker:
    """A worker that listens on `socket_path`; `state` is there for tests to look into and to set faults."""

    socket_path: Path
    state: WorkerState


@contextlib.asynccontextmanager
async def running_worker(
    socket_path: Path, faults: Faults | None = None, *, allow_probe: bool = False
) -> AsyncIterator[SimulatedWorker]:
    """Run a worker in this event loop for the body's time. An error of its engine task is raised at the end."""
    state = WorkerState(faults or Faults())
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
            ("grpc.max_send_message_length", MESSAGE_MAX_BYTES),
        ]
    )
    worker_pb2_grpc.add_WorkerServicer_to_server(WorkerService(state, allow_probe=allow_probe), server)
    server.add_insecure_port(f"unix:{socket_path}")
    await server.start()
    engine = asyncio.create_task(run_engine(state), name="simulated-engine")
    try:
        yield SimulatedWorker(socket_path, state)
    finally:
        await server.stop(grace=None)
        engine.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await engine


async def _run(arguments: argparse.Namespace) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopping.set)
    async with running_worker(arguments.socket, faults_of(arguments), allow_probe=arguments.allow_probe):
        print(json.dumps({"ready": True, "socket": str(arguments.socket), "link_address": ""}), flush=True)
        while not stopping.is_set() and _parent_lives(arguments.parent_pid):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PARENT_WATCH_INTERVAL_S):
                    await stopping.wait()


def _parent_lives(parent_pid: int) -> bool:
    return parent_pid == 0 or os.getppid() == parent_pid


def main() -> None:
    parser = argparse.ArgumentParser(description="pure-Python worker with the FakeEngine")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--parent-pid", type=int, default=0, help="end when this process is no longer the parent")
    parser.add_argument("--link-listen", default="", help="accepted and ignored")
    parser.add_argument("--local-links", default="", help="accepted and ignored")
    parser.add_argument("--allow-probe", action="store_true")
    add_fault_arguments(parser)
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
