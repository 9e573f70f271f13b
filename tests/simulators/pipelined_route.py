"""A route of timed FakeEngine stages over long lines, fed as a Gateway feeds it: one worker for each "machine".

Invariants: the stages compute without a turn, since they stand for different machines; what plays the Gateway reaches
the head over a line of its own. The cut of the prompt and its windows are `meshnet.generation.chunking`'s; the times
are the workers' own word, by the clock that one machine's processes share.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from meshnet.constants import GATEWAY_STAGE
from meshnet.frame import Ack, PrefillProgress, StageFailure
from meshnet.generation.chunking import Chunking, SeamLink, StageTime
from meshnet.generation.prompt_feed import PromptFeed
from meshnet.ids import SessionKey
from meshnet.v1 import session_pb2, worker_pb2
from tests.integration.native.native_routes import MEASURE_WORKER, NativeRoute
from tests.integration.native.step_times import Interval, StepTimes, captured_steps
from tests.simulators.bridged_route import CALL_TIMEOUT_S, BridgedRoute
from tests.simulators.fake_shards import N_LAYERS, load_request, terms
from tests.simulators.line_process import LongLines, long_lines
from tests.simulators.plain_gateway import PlainGateway, RouteFailedError
from tests.simulators.worker_process import running_program

PREFILL_TIMEOUT_S = 120.0
CONTEXT_LENGTH = 4096
F32_BYTES = 4
# Source: linux/prctl.h; children inherit the slack, in ns, and keep it over exec.
PR_SET_TIMERSLACK = 29


@dataclass(frozen=True, slots=True)
class Machines:
    """Equal machines.

    Attributes:
        fixed_us: of every step,
        row_us: and for each of its rows; a multiple of the layers in a stage.
        width: f32 elements of a row.
    """

    stages: int
    fixed_us: int
    row_us: int
    width: int

    @property
    def row_bytes(self) -> int:
        """Of a seam's row."""
        return self.width * F32_BYTES

    @property
    def time(self) -> StageTime:
        """Each stage's, as a Gateway would know it."""
        return StageTime(self.fixed_us / 1000, self.row_us / 1000, CONTEXT_LENGTH)

    def links(self, latency_ms: float, bytes_per_s: float | None) -> tuple[SeamLink, ...]:
        """The lines to each stage."""
        seam = SeamLink(self.row_bytes, latency_ms, bytes_per_s)
        return (SeamLink(0, latency_ms, bytes_per_s), *[seam] * (self.stages - 1))


@dataclass(frozen=True, slots=True)
class Prefilled:
    """One prompt's way: `ms` from its first chunk's leaving until the tail had computed the last; steps by stage."""

    ms: float
    steps: list[list[Interval]]


class PipelinedRoute:
    """Loaded workers, joined by lines."""

    def __init__(self, native: NativeRoute, lines: LongLines, captures: list[StepTimes]) -> None:
        self.lines = lines
        self._native = native
        self._captures = captures
        self._prompts = 0

    async def prefill(self, prompt_tokens: int, chunking: Chunking) -> Prefilled:
        """Feed a prompt.

        Raises:
            TimeoutError: it did not end.
            RouteFailedError: a stage gave up.
        """
        self._prompts += 1
        given = terms(
            key=SessionKey(self._prompts.to_bytes(16), 1),
            prompt=(65,) * prompt_tokens,
            max_tokens=1,
            step_deadline_ms=60_000,
            idle_ms=60_000,
        )
        await self._open(given.key, [self._native.direct_spec(given, at) for at in self._stages], chunking)
        feed = PromptFeed(given.key, given.prompt, chunking, budget_ms=60_000)
        async with asyncio.timeout(PREFILL_TIMEOUT_S):
            begin_us = time.monotonic_ns() / 1000
            await self._feed(feed, given.key, prompt_tokens)
            steps = [await capture.of_prompt(prompt_tokens) for capture in self._captures]
        await PlainGateway(self._native.route, given).close()
        return Prefilled((steps[-1][-1].end_us - begin_us) / 1000, steps)

    @property
    def _stages(self) -> range:
        return range(len(self._native.programs))

    async def _open(self, key: SessionKey, specs: list[session_pb2.SessionSpec], chunking: Chunking) -> None:
        for stage, spec in enumerate(specs):
            for edge in spec.edges:
                if edge.dial:
                    peer = edge.to_stage if edge.from_stage == stage else edge.from_stage
                    edge.peer_address = self.lines.addresses[peer]
                if edge.to_stage != GATEWAY_STAGE and edge.to_stage == (edge.from_stage + 1) % (GATEWAY_STAGE + 1):
                    window = chunking.windows[edge.to_stage]
                    edge.window_frames, edge.window_bytes = window.frames, window.tensor_bytes
            request = worker_pb2.OpenSessionRequest(spec=spec)
            reply = await self._native.route.workers[stage].stub.OpenSession(request, timeout=CALL_TIMEOUT_S)
            if not reply.accepted:
                raise RouteFailedError(StageFailure(reply.code, reply.message, stage))

    async def _feed(self, feed: PromptFeed, key: SessionKey, prompt_tokens: int) -> None:
        done = 0
        while done < prompt_tokens:
            for frame in feed.take():
                await self._native.route.send_frame(frame)
            message = await self._native.route.receive(PREFILL_TIMEOUT_S)
            match message.body:
                case _ if message.key != key:
                    continue
                case Ack() as ack if message.edge.from_stage == GATEWAY_STAGE:
                    feed.acknowledge(ack)
                case PrefillProgress(done=done):
                    pass
                case StageFailure() as failure:
                    raise RouteFailedError(failure)


def make_timers_true() -> None:
    """Let what this thread starts sleep as long as it asked for, and not up to 50 us longer (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)


@contextlib.asynccontextmanager
async def pipelined_route(folder: Path, machines: Machines) -> AsyncIterator[PipelinedRoute]:
    """Run the workers and the lines; all end with the body."""
    make_timers_true()
    bounds = [round(N_LAYERS * stage / machines.stages) for stage in range(machines.stages + 1)]
    async with contextlib.AsyncExitStack() as stack:
        programs = []
        for stage in range(machines.stages):
            program = running_program(MEASURE_WORKER, folder / f"w{stage}.sock", "--link-listen", "127.0.0.1:0")
            programs.append(await stack.enter_async_context(program))
        paths = [program.socket_path for program in programs]
        targets = [*(str(program.ready["link_address"]) for program in programs), str(paths[0])]
        lines = await stack.enter_async_context(long_lines(targets))
        paths[0] = Path(lines.addresses[-1])
        route = await stack.enter_async_context(BridgedRoute(paths))
        times = {"step_us": machines.row_us * machines.stages // N_LAYERS, "step_fixed_us": machines.fixed_us}
        loads = [
            load_request(begin, end, width=machines.width, context_length=CONTEXT_LENGTH, **times)
            for begin, end in pairwise(bounds)
        ]
        await route.load(loads)
        captures = await stack.enter_async_context(captured_steps(route.workers))
        yield PipelinedRoute(NativeRoute(route, programs), lines, captures)
