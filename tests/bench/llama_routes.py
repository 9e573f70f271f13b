"""Routes of real workers for measurements: processes, direct local links, the agent's part played in this process.

Invariants: what is timed runs from the first token event to the last, so prompts and opening do not count; every wait
has a deadline; the same process plays the Gateway for every arm, so that its share of the processor is equal in all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.frame import Codec, PrefillProgress, TokenEvent
from meshnet.ids import SessionKey
from meshnet.v1 import session_pb2, worker_pb2
from tests.bench.resident import ResidentWeights, memory_of
from tests.bench.step_parts import Breakdown, break_down
from tests.bench.streams import Newcomer, Stream, repeated, total_rate
from tests.integration.native.native_routes import MEASURE_WORKER, WORKER, NativeRoute
from tests.integration.native.step_times import StepTimes, captured_steps
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.fake_shards import terms
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.worker_process import running_program

MODELS = Path(__file__).resolve().parents[2] / "build/models"
LOAD_TIMEOUT_S = 60.0
EVENT_TIMEOUT_S = 120.0
CONTEXT_LENGTH = 512
# As the Gateway does: one acknowledgement for a quarter of the window.
ACK_EVERY = TOKEN_ACK_WINDOW // 4
_ASK_AGAIN_S = 0.01


@dataclass(frozen=True, slots=True)
class BenchModel:
    """A model file, how many layers it has, and what it is asked: ids of its vocabulary."""

    path: Path
    layers: int
    prompt: tuple[int, ...]


DEMO = BenchModel(
    MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf",
    30,
    # "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n"
    (1, 4093, 198, 31535, 33662, 30, 2, 198, 1, 520, 9531, 198),
)


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to serve the model.

    Attributes:
        name: in the report.
        cuts: first layers of the second and later stages; none: the whole model in one worker.
        turn_path: the machine's compute turn; empty: none.
        threads: of each worker.
        sessions: that a worker serves at once.
        traced: its workers may be asked when what happened.
        profile: with the engine's parts, which costs speed.
        cores: each stage's worker runs on this one alone; none: where the kernel likes.
    """

    name: str
    cuts: tuple[int, ...] = ()
    turn_path: str = ""
    threads: int = 2
    sessions: int = 4
    traced: bool = False
    profile: bool = False
    cores: tuple[int, ...] = ()


class LlamaRoute:
    """A loaded route. Generations on it are numbered, so that no session repeats.

    Attributes:
        arm: how it serves.
        gaps_ms: times between neighbouring token events of one session, over all generations so far.
    """

    def __init__(
        self,
        arm: Arm,
        model: BenchModel,
        native: NativeRoute,
        loaded: list[worker_pb2.LoadProgress],
        captures: list[StepTimes],
    ) -> None:
        self.arm = arm
        self._model = model
        self.gaps_ms: list[float] = []
        self._native = native
        self._loaded = loaded
        self._captures = captures
        self._generations = 0

    @property
    def process_ids(self) -> list[int]:
        """Of its workers, head first."""
        return [program.process.pid for program in self._native.programs]

    async def prompt_tokens_per_s(self, rows: int, *, is_exact: bool = False) -> float:
        """Rate of one prompt of so many rows, one chunk, from its sending until the tail has computed it.

        Where `is_exact`, it is computed in one step whoever waits beside it.

        Raises:
            TimeoutError: nothing came.
            RouteFailedError: a stage gave up.
        """
        prompt = repeated(self._model.prompt, rows)
        gateways = await self._open(1, 1, prompt=prompt, chunk_rows=rows, is_exact=is_exact)
        (gateway,) = gateways.values()
        # Once everybody is ready: what is timed is the prompt.
        sent_s = time.perf_counter()
        await gateway.send_prompt()
        done_s = 0.0
        while not gateway.is_finished:
            message = await self._native.route.receive(EVENT_TIMEOUT_S)
            is_own = message.key in gateways
            if is_own and isinstance(message.body, PrefillProgress) and message.body.done == rows:
                done_s = time.perf_counter()
            await gateway.take(message)
        await gateway.close()
        return rows / (done_s - sent_s)

    async def breakdown(self, tokens: int) -> Breakdown:
        """What the decode steps of one generation are made of; the arm is traced.

        Raises:
            TimeoutError: nothing came.
            ValueError: nothing was told.
        """
        gaps = len(self.gaps_ms)
        end = len(self._model.prompt) + tokens - 1
        async with asyncio.TaskGroup() as group:
            told = [group.create_task(capture.until_position(end)) for capture in self._captures]
            await self.tokens_per_s(tokens)
        return break_down([task.result() for task in told], [gap * 1000 for gap in self.gaps_ms[gaps:]])

    def resident(self) -> list[ResidentWeights]:
        """What every stage keeps in memory now."""
        return [
            ResidentWeights(
                memory_of(program.process.pid, self._model.path),
                loaded.weights_bytes,
                loaded.kv_bytes + loaded.compute_bytes,
            )
            for program, loaded in zip(self._native.programs, self._loaded, strict=True)
        ]

    async def until_computing(self) -> None:
        """Come back once the head is inside a step.

        Raises:
            TimeoutError: it does not begin.
        """
        async with asyncio.timeout(EVENT_TIMEOUT_S):
            while not (await self._native.route.workers[0].status()).computing:  # noqa: ASYNC110 - each turn is a call
                await asyncio.sleep(_ASK_AGAIN_S)

    async def tokens_per_s(self, tokens: int, *, sessions: int = 1, codec: Codec = Codec.RAW) -> float:
        """Rate of all sessions together while they generate `tokens` each at the same time, rows packed by `codec`.

        Raises:
            TimeoutError: nothing came.
            RouteFailedError: a stage gave up.
        """
        streams = (await self._serve(tokens, sessions, codec=codec))[0]
        for stream in streams:
            self.gaps_ms += stream.gaps_ms()
        return total_rate(streams)

    async def streams(self, tokens: int, sessions: int) -> list[Stream]:
        """So many sessions that generate `tokens` each at the same time.

        Raises:
            TimeoutError: nothing came.
            RouteFailedError: a stage gave up.
        """
        return (await self._serve(tokens, sessions))[0]

    async def disturbed_streams(self, tokens: int, sessions: int, newcomer: Newcomer) -> tuple[list[Stream], Stream]:
        """The same, and a newcomer that asks for one token once every stream has had a third of its own.

        Raises:
            TimeoutError: nothing came.
            RouteFailedError: a stage gave up.
        """
        streams, others = await self._serve(tokens, sessions, newcomer)
        return streams, others[0]

    async def _serve(
        self, tokens: int, sessions: int, newcomer: Newcomer | None = None, codec: Codec = Codec.RAW
    ) -> tuple[list[Stream], list[Stream]]:
        gateways = await self._open(tokens, sessions, codec=codec)
        streams: dict[SessionKey, Stream] = {}
        for key, gateway in gateways.items():
            streams[key] = Stream(time.perf_counter())
            await gateway.send_prompt()
        own = list(streams.values())
        while not all(gateway.is_finished for gateway in gateways.values()):
            message = await self._native.route.receive(EVENT_TIMEOUT_S)
            if message.key not in gateways:  # an acknowledgement of one that is over
                continue
            if isinstance(message.body, TokenEvent):
                streams[message.key].tokens_s.append(time.perf_counter())
            await gateways[message.key].take(message)
            await gateways[message.key].send_prompt()
            if newcomer is not None and newcomer.is_due(own, tokens):
                coming = await self._open(1, 1, prompt=newcomer.prompt(self._model.prompt))
                newcomer = None
                for key, gateway in coming.items():
                    streams[key] = Stream(time.perf_counter())
                    await gateway.send_prompt()
                gateways |= coming
        for gateway in gateways.values():
            await gateway.close()
        return own, list(streams.values())[sessions:]

    async def _open(self, tokens: int, sessions: int, **changes: object) -> dict[SessionKey, PlainGateway]:
        gateways = {}
        for _ in range(sessions):
            self._generations += 1
            own = {"prompt": self._model.prompt, **changes}
            given = terms(
                key=SessionKey(self._generations.to_bytes(16), 1),
                max_tokens=tokens,
                end_tokens=(),
                step_deadline_ms=60_000,
                idle_ms=60_000,
                **own,
            )
            gateways[given.key] = await self._native.open_direct(given, ack_every=ACK_EVERY)
        return gateways


@contextlib.asynccontextmanager
async def llama_route(folder: Path, arm: Arm, model: BenchModel = DEMO) -> AsyncIterator[LlamaRoute]:
    """Run one worker a stage, loaded and joined by direct links, local as a node's are; all end with the body."""
    bounds = [0, *arm.cuts, model.layers]
    links = folder / "links"
    links.mkdir(mode=0o700, exist_ok=True)
    always = ("--link-listen", "127.0.0.1:0", "--local-links", str(links))
    async with contextlib.AsyncExitStack() as stack:
        programs = []
        for stage in range(len(bounds) - 1):
            path = folder / f"{arm.name}-{stage}.sock"
            program = MEASURE_WORKER if arm.traced or arm.profile else WORKER
            programs.append(await stack.enter_async_context(running_program(program, path, *always)))
            if arm.cores:
                _keep_on(programs[-1].process.pid, arm.cores[stage])
        route = await stack.enter_async_context(BridgedRoute([program.socket_path for program in programs]))
        loaded = []
        for worker, (begin, end) in zip(route.workers, pairwise(bounds), strict=True):
            request = _load_request(arm, model.path, begin, end)
            progress = [one async for one in worker.stub.Load(request, timeout=LOAD_TIMEOUT_S)]
            loaded.append(progress[-1])
            route.contracts.append(progress[-1].contract)
        captures = await stack.enter_async_context(captured_steps(route.workers)) if arm.traced else []
        yield LlamaRoute(arm, model, NativeRoute(route, programs), loaded, captures)


def _keep_on(pid: int, core: int) -> None:
    """Bind a worker that has loaded nothing yet: the threads that it starts from now on inherit it."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


def _load_request(arm: Arm, model: Path, layer_begin: int, layer_end: int) -> worker_pb2.LoadRequest:
    return worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_LLAMA,
        gguf_path=str(model),
        layers=session_pb2.LayerRange(layer_begin=layer_begin, layer_end=layer_end),
        context_length=CONTEXT_LENGTH,
        max_sessions=arm.sessions,
        threads=arm.threads,
        flash_attention=True,
        artifact_digest=b"a" * 32,
        turn_path=arm.turn_path,
        profile=arm.profile,
    )
