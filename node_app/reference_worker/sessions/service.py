"""The gRPC service of a worker in Python.

Invariants: methods have the names of `worker.proto`. If a session is refused, the reply says so; every other error is a
gRPC status whose details read "code: message", as the native worker's do.
"""

# ruff: noqa: D102, N802 - the methods are gRPC's, and worker.proto says what they do

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
import grpc.aio

from meshnet.errors import MeshnetError
from meshnet.failure_codes import FailureCode
from meshnet.frame import MessageError
from meshnet.ids import SessionKey
from meshnet.v1 import worker_pb2, worker_pb2_grpc
from node_app.reference_worker.sessions.bridging import BridgeHandover
from node_app.reference_worker.sessions.load_news import LoadNews

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from node_app.reference_worker.sessions.program import WorkerProgram
    from node_app.reference_worker.sessions.state import ReferenceState

    Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

SMALLEST_INTERVAL_MS = 100


class WorkerService(worker_pb2_grpc.WorkerServicer):
    """Serves the `Worker` methods on one event loop; the engine's task runs on the same loop."""

    def __init__(self, state: ReferenceState, program: WorkerProgram) -> None:
        self._state = state
        self._program = program
        self._bridges = BridgeHandover(state)

    async def Describe(self, request: worker_pb2.DescribeRequest, context: Context) -> worker_pb2.DescribeReply:
        return worker_pb2.DescribeReply(
            version_json=self._program.version_json, devices_json=self._program.devices_json
        )

    async def Load(self, request: worker_pb2.LoadRequest, context: Context) -> AsyncIterator[worker_pb2.LoadProgress]:
        loading = worker_pb2.LoadProgress.STATE_LOADING
        yield worker_pb2.LoadProgress(state=loading)
        news = LoadNews()
        load = asyncio.ensure_future(self._program.load(request, news.tell))
        try:
            async for fraction in news.until(load):
                yield worker_pb2.LoadProgress(state=loading, fraction=fraction)
            machine = await load
        except MeshnetError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        finally:
            news.give_up()
            load.cancel()
        self._state.machine = machine
        self._state.stir()
        yield worker_pb2.LoadProgress(
            state=worker_pb2.LoadProgress.STATE_READY,
            fraction=1.0,
            contract=machine.load.contract,
            weights_bytes=machine.load.weights_bytes,
            kv_bytes=machine.load.kv_bytes,
        )

    async def Unload(self, request: worker_pb2.UnloadRequest, context: Context) -> worker_pb2.UnloadReply:
        """Fail all sessions with `not_ready` and free the shard."""
        machine, now_s = self._state.machine, time.monotonic()
        if machine is not None:
            for session in list(machine.sessions.values()):
                machine.fail(session, FailureCode.NOT_READY, "the shard is unloaded", session.terms.stage, now_s)
            self._state.stir()
            await asyncio.sleep(0)
        self._state.machine = None
        return worker_pb2.UnloadReply()

    async def OpenSession(
        self, request: worker_pb2.OpenSessionRequest, context: Context
    ) -> worker_pb2.OpenSessionReply:
        machine = self._state.machine
        if machine is None:
            return worker_pb2.OpenSessionReply(code=FailureCode.NOT_READY, message="nothing is loaded")
        try:
            machine.open(request.spec, time.monotonic())
        except MessageError as error:
            return worker_pb2.OpenSessionReply(code=error.code, message=error.message)
        self._state.stir()
        return worker_pb2.OpenSessionReply(accepted=True, contract=machine.load.contract)

    async def CloseSession(
        self, request: worker_pb2.CloseSessionRequest, context: Context
    ) -> worker_pb2.CloseSessionReply:
        machine, key = self._state.machine, SessionKey(request.session, request.epoch)
        return worker_pb2.CloseSessionReply(was_open=machine is not None and machine.close(key, time.monotonic()))

    async def Status(self, request: worker_pb2.StatusRequest, context: Context) -> worker_pb2.StatusReply:
        return self._state.status()

    async def WatchStatus(
        self, request: worker_pb2.WatchStatusRequest, context: Context
    ) -> AsyncIterator[worker_pb2.StatusReply]:
        while True:
            yield self._state.status()
            await asyncio.sleep(max(request.interval_ms, SMALLEST_INTERVAL_MS) / 1000)

    async def Probe(self, request: worker_pb2.ProbeRequest, context: Context) -> worker_pb2.ProbeReply:
        machine = self._state.machine
        if machine is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not_ready: nothing is loaded")
        self._state.begin_step()
        try:
            outputs = await self._program.probe(machine, request)
        except MeshnetError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            spent_us = self._state.end_step()
        machine.counters["steps"] += 1
        return worker_pb2.ProbeReply(
            outputs=outputs if request.want_outputs else [],
            compute_us=spent_us,
            output_digest=hashlib.sha256(b"".join(tensor.data for tensor in outputs)).digest(),
        )

    async def Bridge(
        self, incoming: AsyncIterator[worker_pb2.BridgeBatch], context: Context
    ) -> AsyncIterator[worker_pb2.BridgeBatch]:
        try:
            async for batch in self._bridges.run(incoming):
                yield batch
        except MessageError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
