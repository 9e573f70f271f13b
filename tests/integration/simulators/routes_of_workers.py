"""Routes of simulated workers for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from meshnet.ids import SessionKey
from meshnet.sampling import SamplingTerms
from meshnet.v1 import session_pb2, worker_pb2
from tests.simulators.bridged_route import BridgedRoute, Filter
from tests.simulators.faults import Faults
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import RouteTerms
from tests.simulators.worker import SimulatedWorker, running_worker
from tests.vectors.engine_cases import PROMPT

N_LAYERS = 8
WIDTH = 16
KEY = SessionKey(bytes(range(16)), 1)


@dataclass(frozen=True, slots=True)
class Running:
    route: BridgedRoute
    workers: list[SimulatedWorker]


def load_request(layer_begin: int, layer_end: int, *, width: int = WIDTH, **limits: int) -> worker_pb2.LoadRequest:
    return worker_pb2.LoadRequest(
        engine=worker_pb2.ENGINE_KIND_FAKE,
        fake=worker_pb2.FakeModel(n_layers=N_LAYERS, width=width),
        layers=session_pb2.LayerRange(layer_begin=layer_begin, layer_end=layer_end),
        context_length=limits.pop("context_length", 4096),
        artifact_digest=b"a" * 32,
        **limits,
    )


@contextlib.asynccontextmanager
async def running_route(
    folder: Path, cuts: list[int], *, faults: dict[int, Faults] | None = None, keep: Filter | None = None, **load: int
) -> AsyncIterator[Running]:
    """Workers for the ranges between `cuts` (0 and N_LAYERS are added), loaded and joined."""
    bounds = [0, *cuts, N_LAYERS]
    async with contextlib.AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(running_worker(folder / f"w{i}.sock", (faults or {}).get(i)))
            for i in range(len(bounds) - 1)
        ]
        paths = [worker.socket_path for worker in workers]
        route = await stack.enter_async_context(BridgedRoute(paths) if keep is None else BridgedRoute(paths, keep=keep))
        await route.load([load_request(begin, end, **load) for begin, end in pairwise(bounds)])
        yield Running(route, workers)


def terms(**changes: object) -> RouteTerms:
    fields: dict[str, object] = {"key": KEY, "prompt": tuple(PROMPT), "max_tokens": 40}
    return RouteTerms(**(fields | changes))


async def open_all(route: BridgedRoute, given: RouteTerms) -> PlainGateway:
    """Open on every stage, or fail the test with the refusal."""
    refused = [(reply.code, reply.message) for reply in await route.open(given) if not reply.accepted]
    assert not refused
    return PlainGateway(route, given)


SAMPLED = SamplingTerms(temperature=1.0, top_p=0.95, seed=7)
