"""The agent's end of the worker's gRPC service, on a Unix socket in a private directory.

Invariants: every call has a deadline; a gRPC status becomes a `WorkerError` here and nowhere else. If the worker
refuses a session, that is an answer (`StageRefusedError`) and no failure of the worker. Runs on the event loop that
created it.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio

from meshnet.errors import WorkerError
from meshnet.failure_codes import FailureCode
from meshnet.printable import printable
from meshnet.v1 import frame_pb2, worker_pb2, worker_pb2_grpc
from node_app.worker.refusal import WORKER_LOST, WORKER_TIMEOUT, StageRefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence
    from pathlib import Path

    from meshnet.v1 import session_pb2

Read = TypeVar("Read")

# A batch holds all messages that one engine step made, each of 512 KiB at most.
RECEIVE_MAX_BYTES = 64 * 1024 * 1024

CALL_TIMEOUT_S = 5.0
SILENCE_SLICES = 4
DETAILS_LENGTH_MAX = 1000

# The details of a refusal have the form "code: message"; docs/wire.md and the artifact reader define the codes.
_DETAILS = re.compile(r"(?P<code>[a-z][a-z0-9_]{1,47}): (?P<message>.*)", re.DOTALL)

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", RECEIVE_MAX_BYTES),
    ("grpc.max_send_message_length", RECEIVE_MAX_BYTES),
    # A restarted worker has the same socket path; without this its channel would inherit the old one's backoff.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The worker's answer to Load.

    Attributes:
        contract: the boundary contract of the graph that the engine built.
        weights_bytes, kv_bytes, compute_bytes: memory that weights, KV cells and compute buffers take.
        nextn_bytes: bytes of the tail's blocks that draft tokens; they are not loaded.
    """

    contract: session_pb2.BoundaryContract
    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    nextn_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The answer to a probe: the step's engine time in microseconds, and the SHA-256 of the raw output rows."""

    compute_us: int
    output_digest: bytes


def worker_error(error: grpc.aio.AioRpcError) -> WorkerError:
    """Return the WorkerError for a gRPC status: `worker_lost`, `worker_timeout`, or the code that the worker gave."""
    status = error.code()
    # The worker quotes text from files, which may hold anything.
    details = printable(error.details() or status.name, DETAILS_LENGTH_MAX)
    if status is grpc.StatusCode.UNAVAILABLE:
        return WorkerError(WORKER_LOST, "Worker lost", f"the worker does not answer: {details}")
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return WorkerError(WORKER_TIMEOUT, "Worker too slow", "the worker did not answer in time")
    match = _DETAILS.match(details)
    if match:
        return WorkerError(match["code"], "Worker refused", match["message"])
    return WorkerError(f"worker_{status.name.lower()}", "Worker refused", details)


async def _awake(reading: Awaitable[Read], silence_s: float) -> Read:
    """Await `reading` for `silence_s` at most, leaving out time in which the agent itself was stopped.

    The time is counted in slices: if the agent was stopped for a while, only one slice has passed when it runs again,
    so it does not blame the worker for its own pause.

    Raises:
        TimeoutError: nothing came within `silence_s`.
    """
    task = asyncio.ensure_future(reading)
    try:
        for _ in range(SILENCE_SLICES):
            if (await asyncio.wait({task}, timeout=silence_s / SILENCE_SLICES))[0]:
                return await task
        raise TimeoutError
    finally:
        task.cancel()


class Bridge:
    """The stream of relayed frames and edge messages between the agent and its worker.

    At most one task reads and one task writes at a time. The stream ends if either side ends it or the worker dies.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall[worker_pb2.BridgeBatch, worker_pb2.BridgeBatch]) -> None:
        self._call = call

    async def send(self, messages: Sequence[worker_pb2.BridgeMessage]) -> None:
        """Send one batch; wait while the transport has no room.

        Raises:
            WorkerError: the stream is broken.
        """
        try:
            await self._call.write(worker_pb2.BridgeBatch(messages=messages))
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error
        except asyncio.InvalidStateError as error:
            raise WorkerError(WORKER_LOST, "Worker lost", "the bridge is closed") from error

    async def batches(self) -> AsyncIterator[Sequence[worker_pb2.BridgeMessage]]:
        """Yield the worker's messages, all those of one engine step at a time, until the stream ends.

        Raises:
            WorkerError: the stream broke.
        """
        try:
            while True:
                batch = await self._call.read()
                if not isinstance(batch, worker_pb2.BridgeBatch):
                    return  # end of stream
                yield batch.messages
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error

    def cancel(self) -> None:
        """End the stream at once. Idempotent."""
        self._call.cancel()


class WorkerClient:
    """Calls the gRPC service of one worker. Owns the channel; `close` releases it."""

    def __init__(self, socket_path: Path) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{socket_path}", options=_CHANNEL_OPTIONS)
        self._stub = worker_pb2_grpc.WorkerStub(self._channel)

    async def describe(self) -> worker_pb2.DescribeReply:
        """Return the worker's versions, its devices and the address on which it listens for peers.

        Raises:
            WorkerError: the worker failed or did not answer in time.
        """
        try:
            reply: worker_pb2.DescribeReply = await self._stub.Describe(
                worker_pb2.DescribeRequest(), timeout=CALL_TIMEOUT_S, wait_for_ready=True
            )
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error
        return reply

    async def load(self, request: worker_pb2.LoadRequest, silence_timeout_s: float) -> LoadResult:
        """Load a shard and return its sizes and contract. The worker must report progress every `silence_timeout_s`.

        Raises:
            WorkerError: the worker refused or failed, or reported no progress in time.
        """
        call = self._stub.Load(request)
        try:
            while True:
                async with asyncio.timeout(silence_timeout_s):
                    progress = await call.read()
                if not isinstance(progress, worker_pb2.LoadProgress):
                    raise WorkerError(WORKER_LOST, "Load broke off", "the worker ended Load without a shard")
                if progress.state == worker_pb2.LoadProgress.STATE_READY:
                    return LoadResult(
                        progress.contract,
                        progress.weights_bytes,
                        progress.kv_bytes,
                        progress.compute_bytes,
                        progress.nextn_bytes,
                    )
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error
        except TimeoutError as error:
            message = f"loading made no progress for {silence_timeout_s:g} s"
            raise WorkerError(WORKER_TIMEOUT, "Load does not advance", message) from error
        finally:
            call.cancel()

    async def open_session(self, spec: session_pb2.SessionSpec, timeout_s: float) -> session_pb2.BoundaryContract:
        """Open this node's stage of a session and return the boundary contract of the worker's shard.

        Raises:
            StageRefusedError: the worker does not admit the session.
            WorkerError: the worker failed or did not answer in time.
        """
        request = worker_pb2.OpenSessionRequest(spec=spec)
        try:
            reply: worker_pb2.OpenSessionReply = await self._stub.OpenSession(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error
        if not reply.accepted:
            raise StageRefusedError(reply.code or FailureCode.NOT_READY, reply.message)
        return reply.contract

    async def close_session(self, session: bytes, epoch: int, reason: str) -> bool:
        """Close a session if it is open with epoch `epoch` or an older one; return whether it was. Idempotent.

        Raises:
            WorkerError: the worker failed or did not answer in time.
        """
        request = worker_pb2.CloseSessionRequest(session=session, epoch=epoch, reason=reason)
        try:
            reply: worker_pb2.CloseSessionReply = await self._stub.CloseSession(request, timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error
        return reply.was_open

    async def watch_status(self, interval_ms: int, silence_timeout_s: float) -> AsyncIterator[worker_pb2.StatusReply]:
        """Yield the worker's status every `interval_ms`, until the stream ends.

        Raises:
            WorkerError: the stream broke, or nothing came for `silence_timeout_s` (code `worker_timeout`).
        """
        call = self._stub.WatchStatus(worker_pb2.WatchStatusRequest(interval_ms=interval_ms))
        try:
            while True:
                status = await _awake(call.read(), silence_timeout_s)
                if not isinstance(status, worker_pb2.StatusReply):
                    return
                yield status
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error
        except TimeoutError as error:
            message = f"the worker sent no status for {silence_timeout_s:g} s"
            raise WorkerError(WORKER_TIMEOUT, "Worker stalled", message) from error
        finally:
            call.cancel()

    async def probe(self, rows: int, timeout_s: float) -> ProbeResult:
        """Run `rows` rows, always the same ones, through the engine in a sequence that no session uses.

        Raises:
            WorkerError: the step failed or took longer than `timeout_s`.
        """
        request = worker_pb2.ProbeRequest(token_ids=[1] * rows)
        try:
            reply: worker_pb2.ProbeReply = await self._stub.Probe(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error
        return ProbeResult(reply.compute_us, reply.output_digest)

    async def run_rows(self, request: worker_pb2.ProbeRequest, timeout_s: float) -> frame_pb2.Tensor:
        """Run the request's rows through the engine, in a sequence that no session uses; return the output rows.

        Raises:
            WorkerError: a step failed or took longer than `timeout_s`; `wrong_shape`: the answer is not one raw f32
                tensor.
        """
        try:
            reply: worker_pb2.ProbeReply = await self._stub.Probe(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error
        outputs = list(reply.outputs)
        if len(outputs) != 1 or (outputs[0].dtype, outputs[0].codec) != (frame_pb2.DTYPE_F32, frame_pb2.CODEC_RAW):
            raise WorkerError(FailureCode.WRONG_SHAPE, "Worker not understood", "the worker gave no rows of f32")
        return outputs[0]

    async def unload(self) -> None:
        """Free the loaded shard; afterwards another shard can be loaded.

        Raises:
            WorkerError: the worker failed or did not answer in time.
        """
        try:
            await self._stub.Unload(worker_pb2.UnloadRequest(), timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error

    def bridge(self) -> Bridge:
        """Open the stream of relayed messages. A worker has one bridge at a time."""
        return Bridge(self._stub.Bridge())

    async def close(self) -> None:
        """Release the channel and cancel the calls in progress. Idempotent."""
        await self._channel.close(grace=None)
