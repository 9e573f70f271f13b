"""What the native workers themselves say of their sessions: asked over their own sockets, past agent and site."""

from __future__ import annotations

from pathlib import Path

import grpc

from meshnet.v1 import worker_pb2, worker_pb2_grpc

CALL_TIMEOUT_S = 5.0


def worker_status(pid: int) -> worker_pb2.StatusReply:
    """The status of a running worker, found by its command line.

    Raises:
        grpc.RpcError: it does not answer.
    """
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    socket = arguments[arguments.index("--socket") + 1]
    with grpc.insecure_channel(f"unix:{socket}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = worker_pb2_grpc.WorkerStub(channel)  # type: ignore[no-untyped-call]
        reply: worker_pb2.StatusReply = stub.Status(worker_pb2.StatusRequest(), timeout=CALL_TIMEOUT_S)
    return reply
