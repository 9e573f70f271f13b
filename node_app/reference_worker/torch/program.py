"""The torch worker's reports of versions and devices, its loading and its probing.

Loading and probing run on the engine's only thread.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import torch

from meshnet import __version__
from meshnet.constants import GRAPH_SEMANTICS_VERSION, WIRE_VERSION, WIRE_VERSION_MIN
from node_app.reference_worker.sessions.machine import StageMachine
from node_app.reference_worker.torch.shard import TorchShard, load_shard
from node_app.reference_worker.torch.steps import run_probe

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from meshnet.v1 import frame_pb2, worker_pb2
    from node_app.reference_worker.sessions.program import Progress


def version_json() -> str:
    """Return the JSON of `--version`: the versions that must match on a route, and PyTorch's."""
    version = {
        "worker": __version__,
        "wire": {"min": WIRE_VERSION_MIN, "max": WIRE_VERSION},
        "contract": {"graph_semantics": GRAPH_SEMANTICS_VERSION},
        "exact_class": {"backend": "torch", "pin": f"torch {torch.__version__}"},
        "torch": torch.__version__,
    }
    return json.dumps(version)


def devices_json() -> str:
    """Return the JSON of `--list-devices`: the processor, and the machine's memory if the system reports it."""
    page_bytes = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    device = {
        "name": "CPU",
        "description": f"PyTorch, {torch.backends.cpu.get_cpu_capability()}",
        "type": "cpu",
        "memory_free_bytes": page_bytes * os.sysconf("SC_AVPHYS_PAGES") if page_bytes else 0,
        "memory_total_bytes": page_bytes * os.sysconf("SC_PHYS_PAGES") if page_bytes else 0,
    }
    return json.dumps({"devices": [device]})


class TorchProgram:
    """The `WorkerProgram` of the torch worker. `thread`: an executor with a single thread, on which the engine runs."""

    def __init__(self, thread: Executor) -> None:
        self._thread = thread

    @property
    def version_json(self) -> str:
        """The worker's versions as JSON, for the reply to `Describe`."""
        return version_json()

    @property
    def devices_json(self) -> str:
        """The machine's devices as JSON, for the reply to `Describe`."""
        return devices_json()

    async def load(self, request: worker_pb2.LoadRequest, progress: Progress) -> StageMachine:
        """Load a shard and report the loaded fraction to `progress`, which may raise to end the load.

        Raises:
            MeshnetError: the shard cannot be loaded.
        """
        loop = asyncio.get_running_loop()
        return StageMachine(await loop.run_in_executor(self._thread, load_shard, request, progress))

    async def probe(self, machine: StageMachine, request: worker_pb2.ProbeRequest) -> list[frame_pb2.Tensor]:
        """Run the request's token ids or rows through the shard, in a new sequence; return the output rows.

        Raises:
            MeshnetError: the shard cannot take these ids or rows.
        """
        shard = machine.load
        if not isinstance(shard, TorchShard):
            raise TypeError("a shard of another engine")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, run_probe, shard, request)
