"""The part of a worker that depends on its engine: its reports, loading and probing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.v1 import frame_pb2, worker_pb2
    from node_app.reference_worker.sessions.machine import StageMachine

    # Called with the fraction that is loaded, from any thread.
    Progress = Callable[[float], None]


class WorkerProgram(Protocol):
    """Engine-specific part of a worker. All methods are called on one event loop."""

    @property
    def version_json(self) -> str:
        """Versions for `Describe`, as JSON."""

    @property
    def devices_json(self) -> str:
        """Devices for `Describe`, as JSON."""

    async def load(self, request: worker_pb2.LoadRequest, progress: Progress) -> StageMachine:
        """Load a shard and report to `progress`, which may raise to end the load.

        Raises:
            MeshnetError: it cannot be loaded.
        """

    async def probe(self, machine: StageMachine, request: worker_pb2.ProbeRequest) -> list[frame_pb2.Tensor]:
        """Run rows through a new sequence and return the output rows.

        Raises:
            MeshnetError: the rows do not fit.
        """
