"""What one kind of worker does its own way: what it says of itself, how it loads and probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.v1 import frame_pb2, worker_pb2
    from node_app.reference_worker.sessions.machine import StageMachine

    # Called with the fraction that is loaded, from any thread.
    Progress = Callable[[float], None]


class WorkerProgram(Protocol):
    """One event loop."""

    @property
    def version_json(self) -> str:
        """What `Describe` says of it."""

    @property
    def devices_json(self) -> str:
        """What `Describe` says that it computes with."""

    async def load(self, request: worker_pb2.LoadRequest, progress: Progress) -> StageMachine:
        """Load a shard and tell `progress` how far it is, which may raise to end the load.

        Raises:
            MeshnetError: it cannot be loaded.
        """

    async def probe(self, machine: StageMachine, request: worker_pb2.ProbeRequest) -> list[frame_pb2.Tensor]:
        """Run rows through a sequence of their own; the output rows.

        Raises:
            MeshnetError: the rows do not fit.
        """
