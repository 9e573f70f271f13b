"""Serves the worker's bridge: passes messages between the agent's stream and the `StageMachine`.

Invariants: there is one bridge at a time; if a new bridge begins, the old one ends. If a message breaks a rule for
which its sender must be disconnected, the bridge ends, but the worker goes on.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from meshnet.failure_codes import FailureCode
from meshnet.frame import Frame, MessageError, write_edge_message, write_frame
from meshnet.v1 import worker_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from node_app.reference_worker.sessions.output import Message
    from node_app.reference_worker.sessions.state import ReferenceState

# Below gRPC's default limit of 4 MiB, so that any client can read a batch.
BATCH_MAX_BYTES = 2 * 1024 * 1024


class BridgeHandover:
    """Lets one bridge at a time serve the `StageMachine`: the newest one."""

    def __init__(self, state: ReferenceState) -> None:
        self._state = state
        self._newest = 0

    async def run(self, incoming: AsyncIterator[worker_pb2.BridgeBatch]) -> AsyncIterator[worker_pb2.BridgeBatch]:
        """Give the machine the incoming messages and yield its outgoing ones.

        It ends when the incoming stream ends or a newer bridge begins.

        Raises:
            MessageError: an incoming message breaks a rule for which its sender must be disconnected.
        """
        self._newest += 1
        own, state = self._newest, self._state
        if state.machine is not None:
            state.machine.attach_bridge()
        state.stir()
        reading = asyncio.create_task(self._read(incoming), name="bridge-read")
        try:
            while own == self._newest and not reading.done():
                # Cleared before taking: if a message is added while a batch is written, it must wake the next wait.
                state.outgoing.clear()
                for batch in batched([] if state.machine is None else state.machine.take_outgoing()):
                    yield batch
                await _either(state.outgoing, reading)
            if reading.done():
                reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            state.outgoing.set()

    async def _read(self, incoming: AsyncIterator[worker_pb2.BridgeBatch]) -> None:
        async for batch in incoming:
            for message in batch.messages:
                self._receive(message)
            self._state.stir()

    def _receive(self, message: worker_pb2.BridgeMessage) -> None:
        machine, now_s = self._state.machine, time.monotonic()
        match message.WhichOneof("body"):
            case "frame" if machine is not None:
                machine.receive_frame(message.frame, now_s)
            case "edge" if machine is not None:
                machine.receive_edge(message.edge, now_s)
            case None:
                raise MessageError(FailureCode.MALFORMED, "the bridge message has no body")


async def _either(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Wait until the event is set or the task ends."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def batched(messages: list[Message]) -> list[worker_pb2.BridgeBatch]:
    """Return the messages in order, in batches of at most BATCH_MAX_BYTES unless a single message is larger."""
    batches: list[worker_pb2.BridgeBatch] = []
    size_bytes = BATCH_MAX_BYTES
    for message in messages:
        written = _bridge_message(message)
        if size_bytes + written.ByteSize() > BATCH_MAX_BYTES:
            batches.append(worker_pb2.BridgeBatch())
            size_bytes = 0
        batches[-1].messages.append(written)
        size_bytes += written.ByteSize()
    return batches


def _bridge_message(message: Message) -> worker_pb2.BridgeMessage:
    if isinstance(message, Frame):
        return worker_pb2.BridgeMessage(frame=write_frame(message))
    return worker_pb2.BridgeMessage(edge=write_edge_message(message))
