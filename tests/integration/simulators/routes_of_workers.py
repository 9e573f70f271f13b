"""Routes of simulated workers for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from meshnet.sampling import SamplingTerms
from tests.simulators.bridged_route import BridgedRoute, Filter
from tests.simulators.fake_shards import N_LAYERS, load_request
from tests.simulators.faults import Faults
from tests.simulators.worker import SimulatedWorker, running_worker


@dataclass(frozen=True, slots=True)
class Running:
    route: BridgedRoute
    workers: list[SimulatedWorker]


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


SAMPLED = SamplingTerms(temperature=1.0, top_p=0.95, seed=7)
