"""The part of a worker that depends on its engine: reports of versions and devices, loading and probing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.v1 import frame_pb2, worker_pb2
    from node_app.reference_worker.sessions.machine import StageMachine

    # Called with the fraction that is loaded, from any thread.
    Progress = Callable[[float], None]


class WorkerProgram(Protocol):
    """The part of a worker that depends on its engine. All methods are called on one event loop."""

    @property
    def version_json(self) -> str:
        """The worker's versions as JSON, for the reply to `Describe`."""

    @property
    def devices_json(self) -> str:
        """The machine's devices as JSON, for the reply to `Describe`."""

    async def load(self, request: worker_pb2.LoadRequest, progress: Progress) -> StageMachine:
        """Load a shard and report the loaded fraction to `progress`, which may raise to end the load.

        Raises:
            MeshnetError: the shard cannot be loaded.
        """

    async def probe(self, machine: StageMachine, request: worker_pb2.ProbeRequest) -> list[frame_pb2.Tensor]:
        """Run the request's token ids or rows through the shard, in a new sequence; return the output rows.

        Raises:
            MeshnetError: the shard cannot take these ids or rows.
        """
