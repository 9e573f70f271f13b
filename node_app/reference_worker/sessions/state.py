"""The state that the reference worker's service, its bridge and its engine task share."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from meshnet.v1 import worker_pb2

if TYPE_CHECKING:
    from node_app.reference_worker.sessions.machine import StageMachine


class ReferenceState:
    """The loaded shard's machine, and two events: `work` if a step may run, `outgoing` if messages wait to be sent.

    Used on one event loop.
    """

    def __init__(self) -> None:
        self.machine: StageMachine | None = None
        self.work = asyncio.Event()
        self.outgoing = asyncio.Event()
        self.compute_us = 0
        self.is_computing = False
        self._step_at_s = time.monotonic()

    def stir(self) -> None:
        """Wake the engine's task and the bridge, since the machine has changed."""
        self.work.set()
        self.outgoing.set()

    def begin_step(self) -> float:
        """Note that a step begins now; return that time in monotonic seconds."""
        self.is_computing = True
        self._step_at_s = time.monotonic()
        return self._step_at_s

    def end_step(self) -> int:
        """Note that the step has ended; return the microseconds that it took."""
        spent_us = round((time.monotonic() - self._step_at_s) * 1_000_000)
        self.is_computing = False
        self.compute_us += spent_us
        self._step_at_s = time.monotonic()
        return spent_us

    def status(self) -> worker_pb2.StatusReply:
        """Return the worker's status; its `last_step_age_ms` counts from the last time a step began or ended."""
        age_ms = round((time.monotonic() - self._step_at_s) * 1000)
        reply = worker_pb2.StatusReply(compute_us=self.compute_us, last_step_age_ms=age_ms, computing=self.is_computing)
        if self.machine is not None:
            self._add_sessions(reply, self.machine)
        return reply

    @staticmethod
    def _add_sessions(reply: worker_pb2.StatusReply, machine: StageMachine) -> None:
        now_s = time.monotonic()
        reply.ready = True
        reply.contract.CopyFrom(machine.load.contract)
        reply.kv_cells_total = machine.load.kv_cells
        reply.kv_cells_reserved = machine.kv_cells_reserved
        for name in ("frames_received", "frames_repeated", "frames_stray", "frames_refused", "steps", "rows"):
            setattr(reply, name, machine.counters[name])
        for session in machine.sessions.values():
            reply.sessions.add(
                session=session.terms.key.session,
                epoch=session.terms.key.epoch,
                stage=session.terms.stage,
                position=session.sequence.length,
                kv_cells=session.terms.kv_cells,
                idle_ms=round((now_s - session.heard_at_s) * 1000),
            )
            reply.queued_frames += len(session.waiting)
            reply.queued_bytes += sum(edge.held_bytes for edge in session.receiving.values())
