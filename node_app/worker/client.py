"""The agent's end of the worker's gRPC service, on a Unix socket in a private directory.

Invariants: every call has a deadline; a gRPC status becomes a `WorkerError` here and nowhere else; a refusal of a
session is an answer (`StageRefusedError`), not a failure of the worker. Runs on the event loop that created it.
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

# A batch holds everything that one engine step gave, each message 512 KiB at most.
RECEIVE_MAX_BYTES = 64 * 1024 * 1024

CALL_TIMEOUT_S = 5.0
SILENCE_SLICES = 4
DETAILS_LENGTH_MAX = 1000

# The worker's details read "code: message"; the code is one of docs/wire.md or of the artifact reader.
_DETAILS = re.compile(r"(?P<code>[a-z][a-z0-9_]{1,47}): (?P<message>.*)", re.DOTALL)

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", RECEIVE_MAX_BYTES),
    ("grpc.max_send_message_length", RECEIVE_MAX_BYTES),
    # A restarted worker has the same socket path: it must not inherit the old one's reconnect backoff.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What Load gave.

    Attributes:
        contract: the boundary contract of the graph that was really built.
        weights_bytes, kv_bytes, compute_bytes: memory in use.
        nextn_bytes: of blocks that draft tokens, which are left in the file.
    """

    contract: session_pb2.BoundaryContract
    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    nextn_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One probe step: engine time in microseconds, and the SHA-256 of its raw output rows."""

    compute_us: int
    output_digest: bytes


def worker_error(error: grpc.aio.AioRpcError) -> WorkerError:
    """Translate a gRPC status; the one table of this edge."""
    status = error.code()
    # The worker quotes what files say.
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
    """Await a read for `silence_s` at most, counted in slices.

    An agent that was itself stopped finds one slice gone when it goes on, not the worker's whole silence, and so does
    not take its own absence for the worker's.

    Raises:
        TimeoutError: nothing came.
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

    One reader and one writer at a time. Ends when either side ends it or the worker dies.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall[worker_pb2.BridgeBatch, worker_pb2.BridgeBatch]) -> None:
        self._call = call

    async def send(self, messages: Sequence[worker_pb2.BridgeMessage]) -> None:
        """Send one batch; waits while the worker's transport has no room.

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
        """Yield what the worker sends, one engine step's messages at a time, until the stream ends.

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
    """Typed calls on one worker. Owns the channel; `close` releases it."""

    def __init__(self, socket_path: Path) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{socket_path}", options=_CHANNEL_OPTIONS)
        self._stub = worker_pb2_grpc.WorkerStub(self._channel)

    async def describe(self) -> worker_pb2.DescribeReply:
        """Return versions, devices and the peers' address."""
        try:
            reply: worker_pb2.DescribeReply = await self._stub.Describe(
                worker_pb2.DescribeRequest(), timeout=CALL_TIMEOUT_S, wait_for_ready=True
            )
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error
        return reply

    async def load(self, request: worker_pb2.LoadRequest, silence_timeout_s: float) -> LoadResult:
        """Load a shard; progress must come at least every `silence_timeout_s`.

        Raises:
            WorkerError: refused, failed, or no progress in time.
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
            message = f"no progress for {silence_timeout_s:g} s"
            raise WorkerError(WORKER_TIMEOUT, "Load does not advance", message) from error
        finally:
            call.cancel()

    async def open_session(self, spec: session_pb2.SessionSpec, timeout_s: float) -> session_pb2.BoundaryContract:
        """Open a stage and return the contract the worker holds it to.

        Raises:
            StageRefusedError: the worker does not admit it.
            WorkerError: the worker failed.
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
        """Close a session up to `epoch`; True where it was open. Idempotent."""
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
            message = f"no sign of life for {silence_timeout_s:g} s"
            raise WorkerError(WORKER_TIMEOUT, "Worker stalled", message) from error
        finally:
            call.cancel()

    async def probe(self, rows: int, timeout_s: float) -> ProbeResult:
        """Run `rows` fixed rows through the engine in a private sequence.

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
        """Run the request's rows through the engine in a private sequence and return what they give, as raw f32.

        Raises:
            WorkerError: a step failed or took longer than `timeout_s`; `wrong_shape`: the answer is no such rows.
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
        """Free the shard; one can be loaded again."""
        try:
            await self._stub.Unload(worker_pb2.UnloadRequest(), timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise worker_error(error) from error

    def bridge(self) -> Bridge:
        """Open the stream of relayed messages; one at a time."""
        return Bridge(self._stub.Bridge())

    async def close(self) -> None:
        """Release the channel; calls in progress end. Idempotent."""
        await self._channel.close(grace=None)
