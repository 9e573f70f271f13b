"""Runs a worker in Python as a process: its command line, its server, and its end when the parent ends.

The command line is the native worker's: `--socket PATH --parent-pid PID [--link-listen ADDRESS] [--local-links DIR]`;
`--version` and `--list-devices` print a report and end. When the worker is ready, it prints one line of JSON on stdout,
as the native worker does; logs go to stderr. The worker has no links to peers, so routes of several stages go through
the bridge.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc.aio

from meshnet.v1 import worker_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from node_app.reference_worker.sessions.service import WorkerService

MESSAGE_MAX_BYTES: Final = 64 * 1024 * 1024
_PARENT_WATCH_INTERVAL_S: Final = 0.2


class ReportAction(argparse.Action):
    """A command-line option that prints `report()` and ends the program, even if required options are missing."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, report: Callable[[], str], help: str) -> None:  # noqa: A002 - argparse's name
        super().__init__(option_strings, dest, nargs=0, help=help)
        self._report = report

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: object, option_string: str | None = None
    ) -> None:
        """Print the report and end the program."""
        sys.stdout.write(self._report() + "\n")
        parser.exit()


def add_report_arguments(
    parser: argparse.ArgumentParser, version: Callable[[], str], devices: Callable[[], str]
) -> None:
    """Add the options that print a worker's versions and devices, for people and `meshnet doctor`."""
    parser.add_argument("--version", action=ReportAction, report=version, help="print the versions as JSON, and end")
    parser.add_argument(
        "--list-devices", action=ReportAction, report=devices, help="print the devices as JSON, and end"
    )


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options with which an agent starts any worker."""
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--parent-pid", type=int, default=0, help="end when this process is no longer the parent")
    parser.add_argument("--link-listen", default="", help="accepted and ignored")
    parser.add_argument("--local-links", default="", help="accepted and ignored")


@contextlib.asynccontextmanager
async def serving(
    socket_path: Path, service: WorkerService, engine: Coroutine[None, None, None]
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve on a Unix socket and run `engine` as a task while the context is open; the context's value is the task.

    On exit the server stops and the task is cancelled; if the task has failed, its error is raised.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
            ("grpc.max_send_message_length", MESSAGE_MAX_BYTES),
        ]
    )
    worker_pb2_grpc.add_WorkerServicer_to_server(service, server)
    server.add_insecure_port(f"unix:{socket_path}")
    await server.start()
    running = asyncio.create_task(engine, name="engine")
    try:
        yield running
    finally:
        await server.stop(grace=None)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def serve_until_told(
    arguments: argparse.Namespace, worker: AbstractAsyncContextManager[asyncio.Task[None]]
) -> None:
    """Print the ready line and run the worker until SIGTERM or SIGINT, the parent's death or the engine's end."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with worker as engine:
        ready = {"ready": True, "socket": str(arguments.socket), "link_address": ""}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        while not stopping.is_set() and not engine.done() and _parent_lives(arguments.parent_pid):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PARENT_WATCH_INTERVAL_S):
                    await stopping.wait()


def _parent_lives(parent_pid: int) -> bool:
    return parent_pid == 0 or os.getppid() == parent_pid
