"""Every served architecture on its tiny model: routes of worker processes.

The routes are processes joined by links over TLS, as nodes are; their reference is a worker with all layers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.parity.architecture_counts import ArchitectureRecord, Records
from tests.parity.comparison import Comparison
from tests.parity.worker_routes import Shards, worker_route
from tests.simulators.tiny_models import TINY_MODELS, TinyModel, tiny_model
from tests.simulators.tiny_models.weights import VOCABULARY

PROMPT_ROWS: Final = (150, 37)
GENERATED_ROWS: Final = 32
SIX_STAGES: Final = 6


Progress = Callable[[str], None]


def process_bounds(model: TinyModel) -> Sequence[tuple[int, ...]]:
    """Two stages, three, and six where layers suffice; early cuts, between layers of deepseek4 that need token ids."""
    few = ((0, 2, model.layers), (0, 1, 3, model.layers))
    return (*few, (0, 1, 2, 3, 4, 5, model.layers)) if model.layers > SIX_STAGES else few


async def compare_processes(
    model: TinyModel, worker: Path, models: Path, folder: Path, threads: int
) -> tuple[Comparison, int]:
    """Compare routes of worker processes with one process; the rows and how many cuts. `folder` holds sockets.

    Raises:
        TimeoutError, grpc.aio.AioRpcError, RouteFailedError: a worker did not do what it should.
    """
    path = tiny_model(model, models)
    prompts = [_prompt(model, rows) for rows in PROMPT_ROWS]

    async def rows_of(bounds: tuple[int, ...]) -> list[bytes]:
        own = folder / "-".join(map(str, bounds))
        own.mkdir()
        async with worker_route(Shards(worker, path, bounds, threads), own) as route:
            # One after the other: the shape of a step must not depend on when the other one comes.
            alone = [await route.generate([prompt], GENERATED_ROWS) for prompt in prompts]
        return [row for (rows,) in alone for row in rows]

    expected = await rows_of((0, model.layers))
    found = Comparison()
    for bounds in process_bounds(model):
        found.add_all(await rows_of(bounds), expected)
    return found, len(process_bounds(model))


def _prompt(model: TinyModel, rows: int) -> tuple[int, ...]:
    drawn = random.Random(f"{model.architecture} {rows}")
    return tuple(drawn.randrange(VOCABULARY) for _ in range(rows))


async def compare_all_processes(
    records: Records, worker: Path, models: Path, folder: Path, threads: int, progress: Progress
) -> None:
    """Add the check `processes` to every architecture's record."""
    for model in TINY_MODELS:
        own = folder / model.architecture
        own.mkdir(parents=True)
        found, cuts = await compare_processes(model, worker, models, own, threads)
        records.setdefault(model.architecture, ArchitectureRecord()).checks["processes"] = {
            "cuts": cuts,
            "rows": found.rows,
            "mismatched_rows": found.mismatched,
            "other_tokens": found.tokens_differ,
        }
        progress(f"{model.architecture}, processes: {found}")
