"""The control: rows of the seam nudged by a millionth must not pass for equal.

The chain is run through the workers' Probe: hidden rows out of the head, into the tail. Untouched they must give what
the worker with all layers gives at the same shape; touched they must not, or the comparison sees nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from meshnet.v1 import frame_pb2, worker_pb2, worker_pb2_grpc
from tests.parity.comparison import Comparison

RELATIVE_NOISE = 1e-6
# So that the logits of all rows of a prompt stay below the 4 MiB that gRPC clients read.
ROWS_MAX = 16
PROBE_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Control:
    """Rows with the seam as it is, and with noise on it; both compared with the whole model's."""

    clean: Comparison = field(default_factory=Comparison)
    noisy: Comparison = field(default_factory=Comparison)


async def compare_with_noise(
    whole: worker_pb2_grpc.WorkerStub, stages: Sequence[worker_pb2_grpc.WorkerStub], prompts: Sequence[tuple[int, ...]]
) -> Control:
    """Run the first rows of every prompt through `whole`, through `stages`, and through them with noise on each seam.

    Raises:
        grpc.aio.AioRpcError: a worker refused the probe.
    """
    control, random = Control(), np.random.default_rng(20)
    for prompt in prompts:
        ids = prompt[:ROWS_MAX]
        expected = _rows(await _probe(whole, worker_pb2.ProbeRequest(token_ids=ids, want_outputs=True)))
        control.clean.add_all(_rows(await _chain(stages, ids, None)), expected)
        control.noisy.add_all(_rows(await _chain(stages, ids, random)), expected)
    return control


async def _chain(
    stages: Sequence[worker_pb2_grpc.WorkerStub], ids: tuple[int, ...], random: np.random.Generator | None
) -> frame_pb2.Tensor:
    output = await _probe(stages[0], worker_pb2.ProbeRequest(token_ids=ids, want_outputs=True))
    for stage in stages[1:]:
        if random is not None:
            output.data = _nudged(output.data, random)
        output = await _probe(stage, worker_pb2.ProbeRequest(tensors=[output], want_outputs=True))
    return output


async def _probe(stub: worker_pb2_grpc.WorkerStub, request: worker_pb2.ProbeRequest) -> frame_pb2.Tensor:
    reply: worker_pb2.ProbeReply = await stub.Probe(request, timeout=PROBE_TIMEOUT_S)
    return reply.outputs[0]


def _nudged(data: bytes, random: np.random.Generator) -> bytes:
    values = np.frombuffer(data, "<f4")
    return bytes((values * (1 + RELATIVE_NOISE * random.standard_normal(values.size))).astype("<f4").tobytes())


def _rows(tensor: frame_pb2.Tensor) -> list[bytes]:
    rows = tensor.shape[0]
    row_bytes = len(tensor.data) // rows
    return [tensor.data[at * row_bytes : (at + 1) * row_bytes] for at in range(rows)]
