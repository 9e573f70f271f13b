"""Routes of torch workers, and of others beside them, as processes that are joined through their bridges."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path

from meshnet.v1 import session_pb2, worker_pb2
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.worker_process import running_program

ROOT = Path(__file__).resolve().parents[4]
CONTEXT_LENGTH = 256


def torch_worker(folder: Path) -> Path:
    """A program that runs the checkout's torch worker with this interpreter."""
    program = folder / "torch-worker"
    code = "from node_app.reference_worker.torch.main import main; raise SystemExit(main())"
    path = os.pathsep.join([str(ROOT), str(ROOT / "shared")])
    command = shlex.join([sys.executable, "-c", code])
    program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {command} "$@"\n')
    program.chmod(0o755)
    return program


def load_requests(model: Path, bounds: Sequence[int]) -> list[worker_pb2.LoadRequest]:
    """One for each stage."""
    return [
        worker_pb2.LoadRequest(
            engine=worker_pb2.ENGINE_KIND_LLAMA,
            gguf_path=str(model),
            layers=session_pb2.LayerRange(layer_begin=begin, layer_end=end),
            context_length=CONTEXT_LENGTH,
            threads=1,
            flash_attention=True,
            artifact_digest=b"a" * 32,
        )
        for begin, end in pairwise(bounds)
    ]


@contextlib.asynccontextmanager
async def worker_routes(
    folder: Path, programs: Sequence[Path], requests: Sequence[worker_pb2.LoadRequest]
) -> AsyncIterator[BridgedRoute]:
    """Start a program a stage, load it and join them."""
    async with contextlib.AsyncExitStack() as stack:
        paths = []
        for stage, program in enumerate(programs):
            options = ("--parent-pid", str(os.getpid()))
            running = await stack.enter_async_context(running_program(program, folder / f"{stage}.sock", *options))
            paths.append(running.socket_path)
        route = await stack.enter_async_context(BridgedRoute(paths))
        if requests:
            await route.load(list(requests))
        yield route
