"""A route of real workers whose frames pass through this process, so that runs can be compared token by token.

A run draws its tokens; the next ones are given the same tokens on the ring whatever they draw, so that every row of
logits has the same history. On the seam the rows of a frame may be changed on their way: that is where noise comes in,
never in the product. Invariants: what is not changed passes as it came; every wait has a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from meshnet.frame import Codec
from meshnet.ids import SessionKey
from meshnet.v1 import frame_pb2, measure_pb2, worker_pb2
from tests.parity.noise_control import RELATIVE_NOISE
from tests.parity.worker_routes import LOAD_TIMEOUT_S, MESSAGE_TIMEOUT_S, STEP_DEADLINE_MS, Shards
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import RouteTerms
from tests.simulators.worker_process import running_program

GENERATION_TIMEOUT_S = 120.0
# Changes the rows of a frame on the seam.
Meddler = Callable[[frame_pb2.Tensor], None]


def leave_alone(_tensor: frame_pb2.Tensor) -> None:
    """Change nothing."""


class Noise:
    """Nudges every element of raw rows by a millionth, seeded."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def __call__(self, tensor: frame_pb2.Tensor) -> None:
        """Change a frame's rows."""
        values = np.frombuffer(tensor.data, "<f4")
        factors = 1 + RELATIVE_NOISE * self._random.standard_normal(values.size)
        tensor.data = (values * factors).astype("<f4").tobytes()


def wrong_scales(tensor: frame_pb2.Tensor) -> None:
    """Make every second block of q8_0 rows a fifth too large: what a mistake in a scale would do."""
    blocks = np.frombuffer(tensor.data, np.dtype([("scale", "<f2"), ("quants", "i1", 32)])).copy()
    blocks["scale"][::2] *= np.float16(1.2)
    tensor.data = blocks.tobytes()


@dataclass(slots=True)
class Run:
    """One generation: the tokens that it was given, and the row that each was, or would have been, drawn from.

    Attributes:
        rows: [vocab] f32 little-endian each.
        decode_frame_bytes: of every frame with one row on a seam, as serialised.
    """

    tokens: tuple[int, ...]
    rows: list[bytes]
    decode_frame_bytes: list[int]


@dataclass(slots=True)
class _Passage:
    """What happens to the frames of the generation that runs."""

    prompt_tokens: int = 0
    forced: Sequence[int] | None = None
    meddle: Meddler = leave_alone
    decode_frame_bytes: list[int] = field(default_factory=list)

    def keep(self, message: worker_pb2.BridgeMessage) -> bool:
        """Let everything pass."""
        if message.HasField("frame"):
            if message.frame.from_stage < message.frame.to_stage:
                self._pass_seam(message.frame)
            elif self.forced is not None:
                message.frame.token_ids[0] = self.forced[message.frame.position - self.prompt_tokens]
        return True

    def _pass_seam(self, frame: frame_pb2.Frame) -> None:
        self.meddle(frame.tensors[0])
        if frame.phase == frame_pb2.PHASE_DECODE:
            self.decode_frame_bytes.append(frame.ByteSize())


class ForcedRoute:
    """A loaded route; one generation at a time."""

    def __init__(
        self, route: BridgedRoute, passage: _Passage, captured: AsyncIterator[measure_pb2.CapturedLogits]
    ) -> None:
        self._route = route
        self._passage = passage
        self._captured = captured
        self._names = count(1)

    async def run(
        self,
        prompt: tuple[int, ...],
        rows: int,
        *,
        codec: Codec = Codec.RAW,
        forced: Sequence[int] | None = None,
        meddle: Meddler = leave_alone,
    ) -> Run:
        """Generate greedily, `forced` tokens instead of the drawn ones where there are any.

        Raises:
            TimeoutError: a stage fell silent.
            RouteFailedError: a stage gave up.
            ValueError: a stage refused, or a row is missing.
        """
        passage, terms = self._passage, self._terms(prompt, rows, codec)
        passage.prompt_tokens, passage.forced, passage.meddle = len(prompt), forced, meddle
        passage.decode_frame_bytes = []
        for reply in await self._route.open(terms):
            if not reply.accepted:
                raise ValueError(f"{reply.code}: {reply.message}")
        gateway = PlainGateway(self._route, terms)
        async with asyncio.timeout(GENERATION_TIMEOUT_S):
            _, captured = await asyncio.gather(self._drive(gateway), self._take(terms))
        await gateway.close()
        self._route.frames.clear()
        return Run(tuple(forced or gateway.answer.token_ids), captured, passage.decode_frame_bytes)

    def _terms(self, prompt: tuple[int, ...], rows: int, codec: Codec) -> RouteTerms:
        return RouteTerms(
            key=SessionKey(struct.pack(">QQ", 0, next(self._names)), 1),
            prompt=prompt,
            max_tokens=rows,
            step_deadline_ms=STEP_DEADLINE_MS,
            idle_ms=STEP_DEADLINE_MS,
            gateway_grace_ms=STEP_DEADLINE_MS,
            end_tokens=(),
            codec=codec,
            is_exact=codec is Codec.RAW and len({one.recipe for one in self._route.contracts}) == 1,
        )

    async def _drive(self, gateway: PlainGateway) -> None:
        while not gateway.is_finished:
            await gateway.send_prompt()
            await gateway.take(await self._route.receive(MESSAGE_TIMEOUT_S))

    async def _take(self, terms: RouteTerms) -> list[bytes]:
        taken = [await anext(self._captured) for _ in range(terms.max_tokens)]
        expected = [(terms.key.session, len(terms.prompt) + index) for index in range(terms.max_tokens)]
        if [(one.session, one.position) for one in taken] != expected:
            raise ValueError("rows of other sessions or positions than were asked for")
        return [one.logits for one in taken]


@contextlib.asynccontextmanager
async def forced_route(shards: Shards, folder: Path) -> AsyncIterator[ForcedRoute]:
    """Start a worker for each range, load it and capture what the tail draws from. `folder` holds the sockets.

    The tail's program is meshnet-worker-measure.

    Raises:
        TimeoutError: a worker did not start or load in time.
        grpc.aio.AioRpcError: a worker refused.
    """
    passage = _Passage()
    async with contextlib.AsyncExitStack() as stack:
        programs = []
        for stage in range(len(shards.bounds) - 1):
            options = ("--parent-pid", str(os.getpid()))
            program = running_program(shards.program(stage), folder / f"stage-{stage}.sock", *options)
            programs.append(await stack.enter_async_context(program))
        paths = [program.socket_path for program in programs]
        route = await stack.enter_async_context(BridgedRoute(paths, keep=passage.keep))
        for worker, request in zip(route.workers, shards.load_requests(), strict=True):
            progress = [one async for one in worker.stub.Load(request, timeout=LOAD_TIMEOUT_S)]
            route.contracts.append(progress[-1].contract)
        captured = route.workers[-1].measure.CaptureLogits(measure_pb2.CaptureLogitsRequest())
        stack.callback(captured.cancel)
        async with asyncio.timeout(LOAD_TIMEOUT_S):
            await captured.initial_metadata()  # from here on it runs
        yield ForcedRoute(route, passage, aiter(captured))
