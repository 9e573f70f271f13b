"""A long prompt is computed by neighbouring stages at once: chunk i+1 on the one while chunk i is on the next.

The stages stand for machines: each computes without a turn, as workers of different machines do. Workers of one machine
take turns, which forbids what is measured here; that, and a window of one frame, are the controls.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import grpc
import pytest

from meshnet.ids import SessionKey
from meshnet.v1 import measure_pb2, worker_pb2
from tests.integration.native.native_routes import MEASURE_WORKER, NativeRoute, native_route
from tests.integration.native.step_times import Interval, Overlap, captured_steps, neighbours
from tests.integration.native.test_native_llama import model_path
from tests.parity.worker_routes import Shards, worker_route
from tests.simulators.fake_shards import N_LAYERS, load_request, terms
from tests.simulators.plain_gateway import PlainGateway

pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]

PROMPT_ROWS = 1024
CHUNK_ROWS = 128
CHUNKS = PROMPT_ROWS // CHUNK_ROWS
# 128 rows of four layers take 41 ms: long beside a link's half millisecond, also on a busy machine.
STEP_US = 80
MODEL_LAYERS = 30
END_TIMEOUT_S = 120.0


async def prefill(running: NativeRoute, prompt: tuple[int, ...], window_frames: int) -> list[Overlap]:
    """Run a prompt over direct links, and the first token behind it; the overlap at each seam."""
    given = terms(
        key=SessionKey(b"a long prompt ok", 1),
        prompt=prompt,
        max_tokens=1,
        chunk_rows=CHUNK_ROWS,
        window_frames=window_frames,
        step_deadline_ms=60_000,
        idle_ms=60_000,
    )
    async with captured_steps(running.route.workers) as captures, asyncio.timeout(END_TIMEOUT_S):
        gateway = await running.open_direct(given)
        await until_first_token(running, gateway)
        stages: Sequence[list[Interval]] = [await capture.of_prompt(len(prompt)) for capture in captures]
        await gateway.close()
    for steps in stages:
        assert [step.position for step in steps] == list(range(0, len(prompt), CHUNK_ROWS))
    return list(neighbours(stages))


async def until_first_token(running: NativeRoute, gateway: PlainGateway) -> None:
    while not gateway.is_finished:
        await gateway.send_prompt()
        await gateway.take(await running.route.receive(END_TIMEOUT_S))


def show(name: str, seams: list[Overlap]) -> None:
    print(json.dumps({"route": name, "seams": [asdict(seam) for seam in seams]}))


@pytest.mark.parametrize("cuts", [[4], [3, 6]], ids=str)
async def test_neighbouring_stages_compute_a_prompt_at_once(tmp_path: Path, cuts: list[int]) -> None:
    async with native_route(tmp_path, cuts, worker=MEASURE_WORKER, step_us=STEP_US) as running:
        seams = await prefill(running, (65,) * PROMPT_ROWS, window_frames=2)
    show(f"fake {cuts}", seams)
    assert len(seams) == len(cuts)
    assert all(seam.chunks == CHUNKS for seam in seams)
    assert all(seam.holds for seam in seams)


async def test_a_window_of_one_frame_forbids_it(tmp_path: Path) -> None:
    """Control: the head may not compute the next chunk before the one in flight is acknowledged."""
    async with native_route(tmp_path, [4], worker=MEASURE_WORKER, step_us=STEP_US) as running:
        (seam,) = await prefill(running, (65,) * PROMPT_ROWS, window_frames=1)
    show("fake, window 1", [seam])
    assert (seam.chunks, seam.intersecting) == (CHUNKS, 0)
    assert not seam.holds


async def test_one_compute_turn_for_both_forbids_it(tmp_path: Path) -> None:
    """Control: so do stages of one machine, by design (ADR 5)."""
    async with native_route(tmp_path, [4], worker=MEASURE_WORKER) as running:
        requests = [load_request(begin, end, step_us=STEP_US) for begin, end in ((0, 4), (4, N_LAYERS))]
        for worker, request in zip(running.route.workers, requests, strict=True):
            request.turn_path = str(tmp_path / "compute.turn")
            await worker.stub.Unload(worker_pb2.UnloadRequest())
        await running.route.load(requests)
        (seam,) = await prefill(running, (65,) * PROMPT_ROWS, window_frames=2)
    show("fake, one turn", [seam])
    assert (seam.chunks, seam.intersecting) == (CHUNKS, 0)
    assert not seam.holds


async def test_the_real_models_halves_compute_a_prompt_at_once(tmp_path: Path) -> None:
    shards = Shards(MEASURE_WORKER, Path(model_path()), (0, MODEL_LAYERS // 2, MODEL_LAYERS), threads=1)
    prompt = tuple(range(100, 100 + PROMPT_ROWS))
    async with worker_route(shards, tmp_path) as route:
        seams = await prefill(route.running, prompt, window_frames=2)
    show(f"SmolLM2 {shards.name}", seams)
    assert [seam.chunks for seam in seams] == [CHUNKS]
    assert all(seam.holds for seam in seams)


async def test_the_shipped_worker_gives_no_steps(tmp_path: Path) -> None:
    async with native_route(tmp_path, [4]) as running:
        call = running.route.workers[0].measure.CaptureSteps(measure_pb2.CaptureStepsRequest())
        async with asyncio.timeout(END_TIMEOUT_S):
            code = await call.code()
    assert code is grpc.StatusCode.UNIMPLEMENTED
