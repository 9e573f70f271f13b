"""Routes of worker processes with the real model, joined by links over TLS, and the logits that their tails draw from.

Invariants: rows come from the tail's process as it samples from them; every wait has a deadline; the workers end with
the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path

from meshnet.ids import SessionKey
from meshnet.v1 import measure_pb2, session_pb2, worker_pb2, worker_pb2_grpc
from tests.integration.native.native_routes import NativeRoute
from tests.parity.batch_shapes import CHUNK_ROWS, CONTEXT_LENGTH
from tests.simulators.bridged_route import BridgedRoute, BridgedWorker
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import RouteTerms
from tests.simulators.worker_process import running_program

LOAD_TIMEOUT_S = 60.0
# Silence on a route that long is a failure; a chunk of 128 rows takes well below a second on a quiet machine.
MESSAGE_TIMEOUT_S = 60.0
GENERATIONS_TIMEOUT_S = 240.0
STEP_DEADLINE_MS = 60_000
SESSIONS_MAX = 8


@dataclass(frozen=True, slots=True)
class Shards:
    """Where the layers are cut, and from which file they are loaded.

    Attributes:
        worker: the program of every stage. Where rows are captured, that of the tail is meshnet-worker-measure.
        head: that of the first stage, where it is another.
    """

    worker: Path
    model: Path
    bounds: tuple[int, ...]
    threads: int
    head: Path | None = None

    @property
    def name(self) -> str:
        """Layers of each stage, for example `15|15`."""
        return "|".join(str(end - begin) for begin, end in pairwise(self.bounds))

    def program(self, stage: int) -> Path:
        """What computes a stage."""
        return self.worker if stage or self.head is None else self.head

    def load_requests(self) -> list[worker_pb2.LoadRequest]:
        """One for each worker."""
        return [
            worker_pb2.LoadRequest(
                engine=worker_pb2.ENGINE_KIND_LLAMA,
                gguf_path=str(self.model),
                layers=session_pb2.LayerRange(layer_begin=begin, layer_end=end),
                context_length=CONTEXT_LENGTH,
                max_sessions=SESSIONS_MAX,
                threads=self.threads,
                flash_attention=True,
                artifact_digest=b"a" * 32,
            )
            for begin, end in pairwise(self.bounds)
        ]


@dataclass(slots=True)
class WorkerRoute:
    """A loaded route. `stubs` are its workers, one a stage."""

    running: NativeRoute
    _captured: AsyncIterator[measure_pb2.CapturedLogits]
    _names: count[int] = field(default_factory=lambda: count(1))

    @property
    def stubs(self) -> list[worker_pb2_grpc.WorkerStub]:
        """The workers' services."""
        return [worker.stub for worker in self.running.route.workers]

    async def generate(self, prompts: Sequence[tuple[int, ...]], rows: int) -> list[list[bytes]]:
        """Generate greedily for all prompts at once; the rows that each one's tokens were drawn from, in order.

        Raises:
            TimeoutError: a stage fell silent.
            RouteFailedError: a stage gave up.
            grpc.aio.AioRpcError: the capture ended.
        ValueError: rows are missing, or of another session or position than was asked for.
        """
        terms = [_terms(prompt, rows, next(self._names)) for prompt in prompts]
        async with asyncio.timeout(GENERATIONS_TIMEOUT_S):
            gateways = {one.key: await self.running.open_direct(one) for one in terms}
            _, captured = await asyncio.gather(_drive(self.running, gateways), self._take(rows * len(terms)))
            for gateway in gateways.values():
                await gateway.close()
        return [_in_order(captured, one) for one in terms]

    async def _take(self, rows: int) -> dict[tuple[bytes, int], bytes]:
        captured: dict[tuple[bytes, int], bytes] = {}
        while len(captured) < rows:
            # A long prompt gives no row for a while: the caller's deadline bounds this, and `_drive` sees silence.
            row = await anext(self._captured)
            captured[row.session, row.position] = row.logits
        return captured


async def answer_tokens(running: NativeRoute, prompt: tuple[int, ...], tokens: int, name: int) -> tuple[int, ...]:
    """Generate greedily; the tokens that the Gateway is given. `name` numbers the session on this route.

    Raises:
        TimeoutError: a stage fell silent.
        RouteFailedError: a stage gave up.
    """
    terms = _terms(prompt, tokens, name)
    async with asyncio.timeout(GENERATIONS_TIMEOUT_S):
        gateway = await running.open_direct(terms)
        await _drive(running, {terms.key: gateway})
        await gateway.close()
    return tuple(gateway.answer.token_ids)


def _terms(prompt: tuple[int, ...], rows: int, name: int) -> RouteTerms:
    return RouteTerms(
        key=SessionKey(struct.pack(">QQ", 0, name), 1),
        prompt=prompt,
        max_tokens=rows,
        chunk_rows=CHUNK_ROWS,
        step_deadline_ms=STEP_DEADLINE_MS,
        idle_ms=STEP_DEADLINE_MS,
        gateway_grace_ms=STEP_DEADLINE_MS,
        end_tokens=(),
        is_exact=True,
    )


async def _drive(running: NativeRoute, gateways: dict[SessionKey, PlainGateway]) -> None:
    while not all(gateway.is_finished for gateway in gateways.values()):
        for gateway in gateways.values():
            await gateway.send_prompt()
        message = await running.route.receive(MESSAGE_TIMEOUT_S)
        # What a closed generation still says is nobody's.
        if message.key in gateways:
            await gateways[message.key].take(message)


def _in_order(captured: dict[tuple[bytes, int], bytes], terms: RouteTerms) -> list[bytes]:
    positions = range(len(terms.prompt), len(terms.prompt) + terms.max_tokens)
    try:
        return [captured[terms.key.session, position] for position in positions]
    except KeyError as missing:
        raise ValueError(f"no row was captured for position {missing.args[0][1]}") from missing


async def _load(worker: BridgedWorker, request: worker_pb2.LoadRequest) -> session_pb2.BoundaryContract:
    progress = [one async for one in worker.stub.Load(request, timeout=LOAD_TIMEOUT_S)]
    contract: session_pb2.BoundaryContract = progress[-1].contract
    return contract


@contextlib.asynccontextmanager
async def loaded_route(shards: Shards, folder: Path) -> AsyncIterator[NativeRoute]:
    """Start a worker for each range and load it. `folder` holds the sockets.

    Raises:
        TimeoutError: a worker did not start or load in time.
        grpc.aio.AioRpcError: a worker refused.
    """
    async with contextlib.AsyncExitStack() as stack:
        programs = []
        for stage in range(len(shards.bounds) - 1):
            # However this process ends, the workers end with it.
            options = ("--link-listen", "127.0.0.1:0", "--parent-pid", str(os.getpid()))
            program = running_program(shards.worker, folder / f"stage-{stage}.sock", *options)
            programs.append(await stack.enter_async_context(program))
        route = await stack.enter_async_context(BridgedRoute([program.socket_path for program in programs]))
        pairs = zip(route.workers, shards.load_requests(), strict=True)
        route.contracts = await asyncio.gather(*(_load(worker, request) for worker, request in pairs))
        yield NativeRoute(route, programs)


@contextlib.asynccontextmanager
async def worker_route(shards: Shards, folder: Path) -> AsyncIterator[WorkerRoute]:
    """Run a loaded route and capture what its tail draws from. `folder` holds the sockets.

    Raises:
        TimeoutError: a worker did not start or load in time.
        grpc.aio.AioRpcError: a worker refused.
    """
    async with loaded_route(shards, folder) as running:
        captured = running.route.workers[-1].measure.CaptureLogits(measure_pb2.CaptureLogitsRequest())
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S):
                await captured.initial_metadata()  # from here on it runs
            yield WorkerRoute(running, aiter(captured))
        finally:
            captured.cancel()
