"""What a decode step's way from worker to worker costs, against a bare gRPC stream of equal bytes and equal idling.

Ours: two workers joined by a link, local as for workers of one machine, or over TLS; FakeEngine sleeps where an engine
would compute, and the workers measure that themselves, and how long rows waited for the engine's thread. What is left
of the time between two tokens is two hops: the seam's frame and the ring's, each serialised, sent, received, parsed,
checked and queued. Bare: `grpc_echo`, the same bytes there and back without TLS, checks or queue.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

from meshnet.frame import TokenEvent
from meshnet.ids import SessionKey
from meshnet.v1 import frame_pb2, link_pb2, session_pb2, worker_pb2
from tests.bench.pairs import Rounds
from tests.bench.programs import output_of
from tests.integration.native.native_routes import WORKER, NativeRoute
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.fake_shards import open_all, terms
from tests.simulators.route_terms import RouteTerms
from tests.simulators.worker_process import running_program

ECHO: Final = WORKER.with_name("grpc_echo")
GAP_US: Final = 5_000  # each stage computes so long
STEPS: Final = 150
WARM_UP_STEPS: Final = 20
EVENT_TIMEOUT_S: Final = 20.0
ECHO_TIMEOUT_S: Final = 60.0
LOCAL, TLS, BARE = "local", "tls", "bare"


@dataclass(slots=True)
class Hops:
    """Microseconds a hop by side, one median a round; and the bytes of what crosses.

    Attributes:
        seam_bytes: of a frame from head to tail, as the link carries it.
        ring_bytes: of the frame on the way back.
        queue_us: after each of our local hops, until the engine's thread takes what has come; one median a round.
        codec_us: in each of these, gathering rows and packing them.
    """

    seam_bytes: int
    ring_bytes: int
    rounds: Rounds = field(default_factory=lambda: Rounds((LOCAL, TLS, BARE)))
    queue_us: list[float] = field(default_factory=list)
    codec_us: list[float] = field(default_factory=list)

    def ratio(self, side: str) -> float:
        """Ours, local or over TLS, against the bare stream."""
        return self.rounds.ratio(side, BARE)

    def report(self) -> dict[str, object]:
        """For the last line."""
        return {
            "seam_frame_bytes": self.seam_bytes,
            "ring_frame_bytes": self.ring_bytes,
            "idle_us": GAP_US,
            "hop_us": {side: round(median(values), 1) for side, values in self.rounds.rates.items()},
            "codec_us": round(median(self.codec_us), 1),
            "until_taken_us": round(median(self.queue_us), 1),
            "hop_us_by_round": {side: [round(one, 1) for one in rates] for side, rates in self.rounds.rates.items()},
        }


class HopBench:
    """Two loaded workers of each kind, ready for rounds."""

    def __init__(self, natives: dict[str, NativeRoute]) -> None:
        self._natives = natives
        self._generations = 0

    async def begin(self) -> Hops:
        """Warm up, and learn the size of what crosses from one generation that is carried by this process."""
        given = self._terms(WARM_UP_STEPS)
        carried = self._natives[LOCAL].route
        await (await open_all(carried, given)).generate()
        decode = [m.frame for m in carried.frames if m.frame.phase == frame_pb2.PHASE_DECODE]
        seam, ring = (median(_sent_bytes(one) for one in decode if one.from_stage == stage) for stage in (0, 1))
        hops = Hops(round(seam), round(ring))
        for native in self._natives.values():
            await self._ours(native, WARM_UP_STEPS)
        return hops

    async def add_round(self, hops: Hops, number: int) -> None:
        """Measure both sides once, in the round's order."""
        for side in hops.rounds.order(number):
            if side == BARE:
                hops.rounds.add(side, await _bare(hops))
                continue
            hop_us, events = await self._ours(self._natives[side], STEPS)
            hops.rounds.add(side, hop_us)
            if side == LOCAL:
                hops.queue_us.append(median(sum(one.queue_us for one in event.residence) / 2 for event in events))
                hops.codec_us.append(median(sum(one.codec_us for one in event.residence) / 2 for event in events))

    def _terms(self, tokens: int) -> RouteTerms:
        self._generations += 1
        key = SessionKey(self._generations.to_bytes(16), 1)
        return terms(key=key, max_tokens=tokens, end_tokens=(), step_deadline_ms=20_000, idle_ms=20_000)

    async def _ours(self, native: NativeRoute, steps: int) -> tuple[float, list[TokenEvent]]:
        """Median microseconds a hop over one generation, and the tokens that it is of."""
        gateway = await native.open_direct(self._terms(steps + 1))
        await gateway.send_prompt()
        came: list[tuple[float, TokenEvent]] = []
        while not gateway.is_finished:
            message = await native.route.receive(EVENT_TIMEOUT_S)
            if isinstance(message.body, TokenEvent):
                came.append((time.perf_counter(), message.body))
            await gateway.take(message)
        await gateway.close()
        hop_us = median(
            ((at_s - before_s) * 1e6 - sum(one.compute_us + one.queue_us for one in event.residence)) / 2
            for (before_s, _), (at_s, event) in pairwise(came)
        )
        return hop_us, [event for _, event in came[1:]]


async def _bare(hops: Hops) -> float:
    """Median microseconds a hop of the bare stream.

    Raises:
        TimeoutError: it did not end.
        ProgramError: it failed.
    """
    arguments = [str(one) for one in (hops.seam_bytes, hops.ring_bytes, GAP_US, STEPS)]
    output = await output_of([str(ECHO), *arguments], ECHO_TIMEOUT_S)
    hops_us: list[float] = json.loads(output)["hops_us"]
    return median(hops_us)


@contextlib.asynccontextmanager
async def hop_bench(folder: Path, width: int) -> AsyncIterator[HopBench]:
    """For each kind of link two workers with a fake model of this width and one layer each."""
    links = folder / "links"
    links.mkdir(mode=0o700, exist_ok=True)
    natives = {}
    async with contextlib.AsyncExitStack() as stack:
        for side, options in ((LOCAL, ("--local-links", str(links))), (TLS, ())):
            programs = []
            for stage in range(2):
                path = folder / f"hop-{side}-{width}-{stage}.sock"
                program = running_program(WORKER, path, "--link-listen", "127.0.0.1:0", *options)
                programs.append(await stack.enter_async_context(program))
            route = await stack.enter_async_context(BridgedRoute([program.socket_path for program in programs]))
            await route.load([_load_request(stage, width) for stage in range(2)])
            natives[side] = NativeRoute(route, programs)
        yield HopBench(natives)


def _sent_bytes(frame: frame_pb2.Frame) -> int:
    """What a link carries of a step: the frame, and with it the acknowledgement of the one that it answers."""
    answered = session_pb2.EdgeMessage(
        session=frame.session,
        epoch=frame.epoch,
        from_stage=frame.to_stage,
        to_stage=frame.from_stage,
        ack=session_pb2.Ack(seq=frame.seq),
    )
    return link_pb2.LinkMessage(frame=frame, more=[link_pb2.LinkItem(edge=answered)]).ByteSize()


def _load_request(stage: int, width: int) -> worker_pb2.LoadRequest:
    return worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_FAKE,
        fake=worker_pb2.FakeModel(n_layers=2, width=width, step_us=GAP_US),
        layers=session_pb2.LayerRange(layer_begin=stage, layer_end=stage + 1),
        context_length=2048,
        artifact_digest=b"a" * 32,
    )
