"""A session that recites, and a node as far as the local API looks at it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from node_app.agent.state import AgentState, WorkerPhase, WorkerState
from node_app.artifacts.model_file import ModelFile
from node_app.settings import LayerSpan
from node_app.worker.measure import ShardSpeed
from tests.unit.node_app.sessions.local.local_kit import CONTRACT, N_LAYERS

if TYPE_CHECKING:
    from meshnet.errors import MeshnetError
    from meshnet.generation.progress import RouteEvent
    from node_app.agent.agent import Agent
    from node_app.sessions.local.session import LocalSession


@dataclass
class Recited:
    """Gives its events, then fails or falls silent."""

    events: list[RouteEvent]
    failure: MeshnetError | None = None
    acknowledged: list[int] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    async def next_event(self, timeout_s: float) -> RouteEvent | None:
        if self.events:
            return self.events.pop(0)
        if self.failure is not None:
            raise self.failure
        await asyncio.sleep(timeout_s)
        return None

    def acknowledge(self, index: int) -> None:
        self.acknowledged.append(index)

    async def close(self, reason: str) -> None:
        self.closed.append(reason)

    @property
    def session(self) -> LocalSession:
        return cast("LocalSession", self)


def a_model(name: str = "tiny.gguf", architecture: str = "fake") -> ModelFile:
    return ModelFile(
        paths=(Path("/models") / name,),
        architecture=architecture,
        n_layers=N_LAYERS,
        layers=LayerSpan(0, N_LAYERS),
        context_length=32_768,
        width=16,
        weights_bytes=1,
        caches=(),
        tail_share=0.1,
    )


def an_agent(phase: WorkerPhase = WorkerPhase.SERVING, reason: str = "") -> Agent:
    """A node whose worker is in `phase`; its shard is known while it serves."""
    speed = ShardSpeed(decode_ms_per_layer=1.0, prefill_ms_per_layer=0.95, tail_ms=1.0)
    facts = SimpleNamespace(contract=CONTRACT, tracker=SimpleNamespace(speed=speed))
    shard = facts if phase is WorkerPhase.SERVING else None
    state = AgentState(worker=WorkerState(phase=phase, reason=reason))
    return cast("Agent", SimpleNamespace(worker=SimpleNamespace(shard=shard), state=state))
