"""The comparisons, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.native.native_routes import MEASURE_WORKER, WORKER
from tests.parity.architecture_counts import table
from tests.parity.architectures import compare_all_processes
from tests.parity.comparison import Comparison, TokenComparison
from tests.parity.gguf_parts import split_in_two
from tests.parity.native_comparison import compare_natively
from tests.parity.noise_control import Control, compare_with_noise
from tests.parity.prompts import LONG_PROMPT_TOKENS_MIN, PROMPTS
from tests.parity.record import Plan, Record
from tests.parity.reference import Reference, answer_unsplit
from tests.parity.whole_stack import compare_stack, stack_paths
from tests.parity.worker_routes import Shards, answer_tokens, loaded_route, worker_route

Progress = Callable[[str], None]
TWO_PARTS = " of two parts"
TINY_FOLDER = "build/models/tiny"  # where `make tiny-models` puts them


@dataclass(frozen=True, slots=True)
class Bench:
    """Where things are, and what the unsplit model answered.

    Attributes:
        worker: the shipped program, whose tokens are compared.
        measure: the same with captures, whose logits are compared.
    """

    model: Path
    worker: Path
    measure: Path
    folder: Path
    threads: int
    references: Sequence[Reference]
    progress: Progress

    def shards(self, bounds: tuple[int, ...], model: Path | None = None) -> Shards:
        """A route of workers over this model, or the one named."""
        return Shards(self.measure, model or self.model, bounds, self.threads)

    def shipped_shards(self, bounds: tuple[int, ...]) -> Shards:
        """A route of shipped workers."""
        return Shards(self.worker, self.model, bounds, self.threads)

    def socket_folder(self, name: str) -> Path:
        """A folder of its own."""
        folder = self.folder / name
        folder.mkdir()
        return folder


def run(plan: Plan, root: Path, folder: Path, threads: int, progress: Progress) -> Record:
    """Run the plan. Blocks; the caller's thread starts every process.

    Raises:
        DemoError, grpc.aio.AioRpcError, RouteFailedError, TimeoutError, ValueError: nothing can be said.
    """
    manifest = json.loads((root / "packaging/demo_model.json").read_text(encoding="utf-8"))
    model = root / "build/models" / Path(manifest["member"]).name
    references: Sequence[Reference] = ()
    if plan.prompts:
        progress(f"the unsplit model answers {len(plan.prompts)} prompts, {threads} threads")
        references = answer_unsplit(model, plan.prompts, plan.rows, threads)
        _check_prompts(plan, references)
    bench = Bench(model, WORKER, MEASURE_WORKER, folder, threads, references, progress)
    record = Record()
    if plan.architectures:
        record.native = compare_natively(WORKER.with_name("meshnet_tests"), folder, root / TINY_FOLDER)
        record.architectures = record.native.records
        progress(f"the native comparison: status {record.native.status}, {record.native.failures} failures")
    for carrier in plan.carriers:
        _compare_stack(plan, carrier, root, bench, record)
    # Last: gRPC's threads would be in the way of the children that the stack forks.
    if plan.cuts:
        asyncio.run(_compare_workers(plan, bench, record))
    if plan.architectures:
        asyncio.run(_compare_architectures(bench, record, root / TINY_FOLDER))
    return record


async def _compare_architectures(bench: Bench, record: Record, models: Path) -> None:
    sockets = bench.socket_folder("tiny")
    await compare_all_processes(record.architectures, bench.measure, models, sockets, bench.threads, bench.progress)
    for line in table(record.architectures):
        bench.progress(line)


def _compare_stack(plan: Plan, carrier: str, root: Path, bench: Bench, record: Record) -> None:
    paths = stack_paths(root, bench.socket_folder(carrier), bench.model, bench.worker)
    found = compare_stack(paths, carrier, bench.threads, plan.prompts, bench.references, bench.progress)
    record.stack_prompts += found.prompts
    record.stack_mismatched += found.mismatched
    record.stack_together_mismatched += found.together_mismatched
    record.survivors += found.survivors
    # Every answer that counts as equal came over this carrier, as the site's telemetry names it.
    record.carriers.append(carrier)
    bench.progress(f"{carrier}: {found.prompts} answers through the whole stack, {found.mismatched} mismatched")


def _check_prompts(plan: Plan, references: Sequence[Reference]) -> None:
    """Raise ValueError where the prompts are not as different as they should be."""
    if len({reference.tokens for reference in references}) != len(references):
        raise ValueError("two prompts have the same continuation")
    longest = max(len(reference.prompt) for reference in references)
    if plan.prompts is PROMPTS and longest < LONG_PROMPT_TOKENS_MIN:
        raise ValueError(f"the longest prompt has {longest} tokens only")


async def _compare_workers(plan: Plan, bench: Bench, record: Record) -> None:
    routes = [bench.shards(bounds) for bounds in plan.cuts]
    if plan.split_file_cuts:
        parts = split_in_two(bench.model, bench.socket_folder("parts"))
        routes += [bench.shards(bounds, parts) for bounds in plan.split_file_cuts]
    for number, shards in enumerate(routes):
        found = await _compare_cut(shards, bench, f"cut-{number}")
        record.rows += found
        name = shards.name + (TWO_PARTS if shards.model != bench.model else "")
        record.cuts.append(name)
        bench.progress(f"{name}: {found}")
    for number, bounds in enumerate(plan.shipped_cuts):
        found_tokens = await _compare_shipped(bench.shipped_shards(bounds), bench, f"shipped-{number}")
        record.shipped += found_tokens
        bench.progress(f"{bench.shipped_shards(bounds).name}, the shipped program: {found_tokens}")
    if plan.together is not None:
        record.together = await _compare_together(bench.shards(plan.together), bench)
        bench.progress(f"{len(bench.references)} sessions at once: {record.together}")
    record.control = await _run_control(bench.shards(plan.cuts[0]), bench)
    bench.progress(f"control, seam as it is: {record.control.clean}")
    bench.progress(f"control, seam with noise: {record.control.noisy}")


async def _compare_cut(shards: Shards, bench: Bench, folder: str) -> Comparison:
    """Every prompt alone, one after the other."""
    found = Comparison()
    async with worker_route(shards, bench.socket_folder(folder)) as route:
        for reference in bench.references:
            (rows,) = await route.generate([reference.prompt], len(reference.rows))
            found.add_all(rows, reference.rows)
    return found


async def _compare_shipped(shards: Shards, bench: Bench, folder: str) -> TokenComparison:
    """Every prompt alone through workers without captures: their tokens against the unsplit model's."""
    found = TokenComparison()
    async with loaded_route(shards, bench.socket_folder(folder)) as running:
        for name, reference in enumerate(bench.references, start=1):
            tokens = await answer_tokens(running, reference.prompt, len(reference.tokens), name)
            found.add_all(tokens, reference.tokens)
    return found


async def _compare_together(shards: Shards, bench: Bench) -> Comparison:
    """All prompts at once: batches of several rows, against rows that were computed one by one."""
    found = Comparison()
    references = bench.references
    async with worker_route(shards, bench.socket_folder("together")) as route:
        sessions = await route.generate([reference.prompt for reference in references], len(references[0].rows))
    for rows, reference in zip(sessions, references, strict=True):
        own = Comparison()
        own.add_all(rows, reference.rows)
        if own.mismatched:
            bench.progress(f"at once, prompt of {len(reference.prompt)} tokens: {own}")
        found += own
    return found


async def _run_control(shards: Shards, bench: Bench) -> Control:
    whole = bench.shards((shards.bounds[0], shards.bounds[-1]))
    async with contextlib.AsyncExitStack() as stack:
        uncut = await stack.enter_async_context(worker_route(whole, bench.socket_folder("uncut")))
        route = await stack.enter_async_context(worker_route(shards, bench.socket_folder("control")))
        prompts = [reference.prompt for reference in bench.references]
        return await compare_with_noise(uncut.stubs[0], route.stubs, prompts)
