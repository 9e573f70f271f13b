"""Routes of native workers with FakeEngine, joined through their bridges or directly by links over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from meshnet.constants import GATEWAY_STAGE
from meshnet.v1 import session_pb2, worker_pb2
from tests.simulators.bridged_route import CALL_TIMEOUT_S, BridgedRoute, BridgedWorker, Filter
from tests.simulators.fake_shards import N_LAYERS, load_request
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import RouteTerms, spec_for
from tests.simulators.worker_process import WorkerProgram, running_program

_BUILT_WORKER = Path(__file__).resolve().parents[3] / "build/native/cpu/bin/meshnet-worker"
# A build with sanitizers can be named instead.
WORKER = Path(os.environ.get("MESHNET_TEST_WORKER", _BUILT_WORKER))
# The same worker with captures and profiles, which the shipped one does not have.
MEASURE_WORKER = WORKER.with_name("meshnet-worker-measure")

# Which end of a seam dials; None: both ends are carried by the bridge.
Dialler = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class NativeRoute:
    """A running route; `programs` are its workers, one a stage."""

    route: BridgedRoute
    programs: list[WorkerProgram]

    async def open_direct(self, terms: RouteTerms, dialler: Dialler = min, *, ack_every: int = 1) -> PlainGateway:
        """Open on every stage with direct edges between workers; `dialler` picks the end of each that dials."""
        for stage in range(len(self.programs)):
            spec = self.direct_spec(terms, stage, dialler)
            request = worker_pb2.OpenSessionRequest(spec=spec)
            reply = await self.route.workers[stage].stub.OpenSession(request, timeout=CALL_TIMEOUT_S)
            assert reply.accepted, (reply.code, reply.message)
        return PlainGateway(self.route, terms, ack_every=ack_every)

    def direct_spec(self, terms: RouteTerms, stage: int, dialler: Dialler = min) -> session_pb2.SessionSpec:
        """The spec of one stage whose edges to other workers are direct."""
        spec = spec_for(terms, stage, self.route.contracts)
        for edge in spec.edges:
            if GATEWAY_STAGE in {edge.from_stage, edge.to_stage} or edge.from_stage == edge.to_stage:
                continue
            peer = self.programs[edge.to_stage if edge.from_stage == stage else edge.from_stage].ready
            edge.carrier = session_pb2.EdgeSpec.CARRIER_DIRECT
            edge.peer_fingerprint = bytes.fromhex(str(peer["link_fingerprint"]))
            edge.dial = dialler(edge.from_stage, edge.to_stage) == stage
            edge.peer_address = str(peer["link_address"]) if edge.dial else ""
        return spec


@contextlib.asynccontextmanager
async def native_route(
    folder: Path,
    cuts: list[int],
    *,
    keep: Filter | None = None,
    arguments: tuple[str, ...] = (),
    worker: Path = WORKER,
    listeners: set[int] | None = None,
    **load: int,
) -> AsyncIterator[NativeRoute]:
    """Workers for the ranges between `cuts` (0 and N_LAYERS are added), loaded, their bridges joined.

    `listeners` are the stages that accept links; None: all of them. `worker` is the program of every stage.
    """
    bounds = [0, *cuts, N_LAYERS]
    async with contextlib.AsyncExitStack() as stack:
        programs = []
        for stage in range(len(bounds) - 1):
            listens = listeners is None or stage in listeners
            own = (*arguments, "--link-listen", "127.0.0.1:0") if listens else arguments
            programs.append(await stack.enter_async_context(running_program(worker, folder / f"w{stage}.sock", *own)))
        paths = [program.socket_path for program in programs]
        route = await stack.enter_async_context(BridgedRoute(paths) if keep is None else BridgedRoute(paths, keep=keep))
        await route.load([load_request(begin, end, **load) for begin, end in pairwise(bounds)])
        yield NativeRoute(route, programs)


async def until_free(*workers: BridgedWorker) -> None:
    """Come back once no cell of these workers is reserved: a close travels behind what a test has just seen.

    Raises:
        TimeoutError: one of them keeps its cells.
    """
    async with asyncio.timeout(CALL_TIMEOUT_S):
        for worker in workers:
            while (await worker.status()).kv_cells_reserved:  # noqa: ASYNC110 - each turn is a call, not a spin
                await asyncio.sleep(0.01)
