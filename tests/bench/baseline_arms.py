"""The arms of `make bench-baseline`: routes of worker processes, all of them joined through their bridges.

Invariants: every arm takes the same way (agent's part and Gateway's in this process, no links), so that runtimes alone
differ; every wait has a deadline; the workers end with the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Final

import numpy as np

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.frame import TokenEvent
from meshnet.ids import SessionKey
from meshnet.v1 import frame_pb2, session_pb2, worker_pb2
from tests.bench.resident import memory_of
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import RouteTerms
from tests.simulators.worker_process import running_program

LOAD_TIMEOUT_S: Final = 90.0
CALL_TIMEOUT_S: Final = 60.0
GENERATION_TIMEOUT_S: Final = 90.0
DEADLINE_MS: Final = 60_000
CONTEXT_LENGTH: Final = 512
ACK_EVERY: Final = TOKEN_ACK_WINDOW // 4

Meddler = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class BaselineArm:
    """One way to serve the model.

    Attributes:
        name: runtime, file and stages, for people.
        program: of every stage.
        model: a GGUF file, or a folder of safetensors.
        bounds: first layer of each stage, and the number of layers.
        is_same_arithmetic: float32 throughout, as the reference.
    """

    name: str
    program: Path
    model: Path
    bounds: tuple[int, ...]
    is_same_arithmetic: bool


class BaselineRoute:
    """A loaded arm; one generation at a time."""

    def __init__(
        self, arm: BaselineArm, route: BridgedRoute, process_ids: Sequence[int], weights_bytes: Sequence[int]
    ) -> None:
        self.arm = arm
        self.weights_bytes = tuple(weights_bytes)
        self._route = route
        self._process_ids = process_ids
        self._names = count(1)

    def resident_bytes(self) -> tuple[int, ...]:
        """Of each stage's process, now."""
        return tuple(memory_of(pid, self.arm.model).total_bytes for pid in self._process_ids)

    async def generate(self, prompt: tuple[int, ...], tokens: int) -> tuple[float, float]:
        """Milliseconds from the prompt to the first token, and tokens a second from there to the last.

        Raises:
            TimeoutError: a stage fell silent.
            RouteFailedError: a stage gave up.
            ValueError: a stage refused.
        """
        terms = RouteTerms(
            key=SessionKey(struct.pack(">QQ", 0, next(self._names)), 1),
            prompt=prompt,
            max_tokens=tokens,
            step_deadline_ms=DEADLINE_MS,
            idle_ms=DEADLINE_MS,
            gateway_grace_ms=DEADLINE_MS,
            end_tokens=(),
        )
        for reply in await self._route.open(terms):
            if not reply.accepted:
                raise ValueError(f"{reply.code}: {reply.message}")
        gateway, times_s = PlainGateway(self._route, terms, ack_every=ACK_EVERY), []
        begun_s = time.monotonic()
        async with asyncio.timeout(GENERATION_TIMEOUT_S):
            while not gateway.is_finished:
                await gateway.send_prompt()
                message = await self._route.receive(CALL_TIMEOUT_S)
                if isinstance(message.body, TokenEvent):
                    times_s.append(time.monotonic())
                await gateway.take(message)
            await gateway.close()
        self._route.frames.clear()
        return 1000 * (times_s[0] - begun_s), (len(times_s) - 1) / (times_s[-1] - times_s[0])

    async def logits(self, token_ids: Sequence[int], *, meddle: Meddler | None = None) -> list[bytes]:
        """The logits of every row of a prompt, [vocab_size] f32 each, computed through all stages.

        `meddle`: changes the rows between two stages, for a control.
        """
        request = worker_pb2.ProbeRequest(token_ids=token_ids, want_outputs=True)
        output = frame_pb2.Tensor()
        for number, worker in enumerate(self._route.workers):
            if number:
                output.data = output.data if meddle is None else meddle(output.data)
                request = worker_pb2.ProbeRequest(tensors=[output], want_outputs=True)
            reply = await worker.stub.Probe(request, timeout=CALL_TIMEOUT_S)
            output = reply.outputs[0]
        rows = np.frombuffer(output.data, "<f4").reshape(len(token_ids), -1)
        return [row.tobytes() for row in rows]


@contextlib.asynccontextmanager
async def baseline_route(arm: BaselineArm, sockets: Path, threads: int) -> AsyncIterator[BaselineRoute]:
    """Start a worker for each range and load it. `sockets`: the arm's own, to whose name each stage's is added.

    Raises:
        TimeoutError: a worker did not start or load in time.
        grpc.aio.AioRpcError: a worker refused.
    """
    async with contextlib.AsyncExitStack() as stack:
        programs = []
        for stage in range(len(arm.bounds) - 1):
            options = ("--parent-pid", str(os.getpid()))
            program = running_program(arm.program, sockets.with_name(f"{sockets.name}-{stage}.sock"), *options)
            programs.append(await stack.enter_async_context(program))
        route = await stack.enter_async_context(BridgedRoute([program.socket_path for program in programs]))
        weights_bytes = []
        for worker, (begin, end) in zip(route.workers, pairwise(arm.bounds), strict=True):
            request = _load_request(arm.model, begin, end, threads)
            progress = [one async for one in worker.stub.Load(request, timeout=LOAD_TIMEOUT_S)]
            route.contracts.append(progress[-1].contract)
            weights_bytes.append(progress[-1].weights_bytes)
        yield BaselineRoute(arm, route, [program.process.pid for program in programs], weights_bytes)


def _load_request(model: Path, layer_begin: int, layer_end: int, threads: int) -> worker_pb2.LoadRequest:
    request = worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_LLAMA,
        layers=session_pb2.LayerRange(layer_begin=layer_begin, layer_end=layer_end),
        context_length=CONTEXT_LENGTH,
        max_sessions=4,
        threads=threads,
        flash_attention=True,
        artifact_digest=b"a" * 32,
    )
    if model.is_dir():
        request.model_folder = str(model)
    else:
        request.gguf_path = str(model)
    return request
