"""A route of workers whose bridges are joined in the test: what relay and Gateway do, in the smallest form.

Invariants: messages go where their edge says and nowhere else; every wait has a deadline. The workers may be simulated
or native: anything that serves `Worker` on a Unix socket.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Self

import grpc.aio

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import EdgeMessage, Frame, read_edge_message, write_edge_message, write_frame
from meshnet.v1 import measure_pb2_grpc, session_pb2, worker_pb2, worker_pb2_grpc
from tests.simulators.route_terms import RouteTerms, spec_for

CALL_TIMEOUT_S = 10.0
# Before a message goes on; False drops it.
Filter = Callable[[worker_pb2.BridgeMessage], bool]


class LostTokens:
    """A filter that loses a route's first token events, as a connection that breaks does."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._all_lost = asyncio.Event()

    def __call__(self, message: worker_pb2.BridgeMessage) -> bool:
        if not self._left or not message.HasField("edge") or not message.edge.HasField("token"):
            return True
        self._left -= 1
        if not self._left:
            self._all_lost.set()
        return False

    async def wait(self) -> None:
        """Until as many are lost; the caller has a deadline."""
        await self._all_lost.wait()


class BridgedWorker:
    """One worker's channel and bridge."""

    def __init__(self, socket_path: Path) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{socket_path}")
        self.stub = worker_pb2_grpc.WorkerStub(self._channel)
        # Answered by meshnet-worker-measure alone.
        self.measure = measure_pb2_grpc.MeasureStub(self._channel)
        self._bridge = self.stub.Bridge()
        # gRPC takes one write at a time; several pumps and the Gateway write here.
        self._writing = asyncio.Lock()

    async def load(self, request: worker_pb2.LoadRequest) -> session_pb2.BoundaryContract:
        """Load a shard and return its contract."""
        contract = session_pb2.BoundaryContract()
        async for progress in self.stub.Load(request, timeout=CALL_TIMEOUT_S):
            contract = progress.contract
        return contract

    async def status(self) -> worker_pb2.StatusReply:
        reply: worker_pb2.StatusReply = await self.stub.Status(worker_pb2.StatusRequest(), timeout=CALL_TIMEOUT_S)
        return reply

    async def send(self, *messages: worker_pb2.BridgeMessage) -> None:
        async with self._writing:
            await self._bridge.write(worker_pb2.BridgeBatch(messages=messages))

    async def batches(self) -> AsyncIterator[worker_pb2.BridgeBatch]:
        """What the worker sends, until its stream ends (which may be with a gRPC error)."""
        async for batch in self._bridge:
            yield batch

    def reconnect(self) -> None:
        """End the bridge and open another."""
        self._bridge.cancel()
        self._bridge = self.stub.Bridge()

    async def close(self) -> None:
        self._bridge.cancel()
        await self._channel.close(None)


class BridgedRoute:
    """Several workers, one a stage. `to_gateway` holds what they send to the Gateway."""

    def __init__(self, socket_paths: list[Path], *, keep: Filter = lambda _message: True) -> None:
        self.workers = [BridgedWorker(path) for path in socket_paths]
        self.contracts: list[session_pb2.BoundaryContract] = []
        self.to_gateway: asyncio.Queue[EdgeMessage] = asyncio.Queue(maxsize=10_000)
        self.frames: list[worker_pb2.BridgeMessage] = []
        self._keep = keep
        self._pumps: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._pumps = [asyncio.create_task(self._pump(worker)) for worker in self.workers]
        return self

    async def __aexit__(self, *_error: object) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        for worker in self.workers:
            await worker.close()

    async def load(self, requests: list[worker_pb2.LoadRequest]) -> None:
        """Load one shard a worker."""
        pairs = zip(self.workers, requests, strict=True)
        self.contracts = [await worker.load(request) for worker, request in pairs]

    async def open(self, terms: RouteTerms) -> list[worker_pb2.OpenSessionReply]:
        """Open the session on every stage."""
        requests = [
            worker_pb2.OpenSessionRequest(spec=spec_for(terms, stage, self.contracts))
            for stage in range(len(self.workers))
        ]
        pairs = zip(self.workers, requests, strict=True)
        return [await worker.stub.OpenSession(request, timeout=CALL_TIMEOUT_S) for worker, request in pairs]

    async def send_frame(self, frame: Frame) -> None:
        """From the Gateway to the stage that the frame names."""
        await self.workers[frame.to_stage].send(worker_pb2.BridgeMessage(frame=write_frame(frame)))

    async def send_edge(self, message: EdgeMessage, stage: int) -> None:
        """From the Gateway to a stage."""
        await self.workers[stage].send(worker_pb2.BridgeMessage(edge=write_edge_message(message)))

    async def receive(self, timeout_s: float = CALL_TIMEOUT_S) -> EdgeMessage:
        """The next message to the Gateway.

        Raises:
            TimeoutError: none came in time.
        """
        if not self.to_gateway.empty():
            return self.to_gateway.get_nowait()
        async with asyncio.timeout(timeout_s):
            return await self.to_gateway.get()

    async def reconnect(self, stage: int) -> None:
        """Break a worker's bridge and open a new one."""
        self._pumps[stage].cancel()
        await asyncio.gather(self._pumps[stage], return_exceptions=True)
        self.workers[stage].reconnect()
        self._pumps[stage] = asyncio.create_task(self._pump(self.workers[stage]))

    async def _pump(self, worker: BridgedWorker) -> None:
        # A worker that dies ends its pump; the test sees the silence.
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for batch in worker.batches():
                for message in batch.messages:
                    if self._keep(message):
                        await self._forward(message)

    async def _forward(self, message: worker_pb2.BridgeMessage) -> None:
        stage = destination_of(message)
        if stage == GATEWAY_STAGE:
            self.to_gateway.put_nowait(read_edge_message(message.edge))
            return
        if message.HasField("frame"):
            self.frames.append(message)
        await self.workers[stage].send(message)


def destination_of(message: worker_pb2.BridgeMessage) -> int:
    """The stage that a message goes to: answers go back along their edge."""
    if message.HasField("frame"):
        return message.frame.to_stage
    is_answer = message.edge.WhichOneof("body") in {"ack", "gone"}
    return message.edge.from_stage if is_answer else message.edge.to_stage
