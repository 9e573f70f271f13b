"""A tiny DeepSeek-V4 over several workers: token ids travel to the stages whose layers need them, and no further."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from meshnet.failure_codes import FailureCode
from meshnet.v1 import frame_pb2, session_pb2, worker_pb2
from tests.integration.native.native_routes import WORKER
from tests.simulators.bridged_route import BridgedRoute, Filter
from tests.simulators.fake_shards import open_all, terms
from tests.simulators.tiny_models import TINY_MODELS, tiny_model
from tests.simulators.tiny_models.deepseek4 import HASH_LAYERS, STREAMS, WIDTH
from tests.simulators.tiny_models.weights import VOCABULARY
from tests.simulators.worker_process import running_program

pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]

(MODEL,) = (model for model in TINY_MODELS if model.architecture == "deepseek4")
BOUNDS = (0, 2, 5, MODEL.layers)  # layers 2 to 4 hold the last one whose experts are chosen by token id
ROW_BYTES = 4 * STREAMS * WIDTH
BESIDE_ROW_BYTES = 256
PROMPT = tuple((number * 37 + 11) % VOCABULARY for number in range(41))


@contextlib.asynccontextmanager
async def deepseek4_route(
    folder: Path, bounds: tuple[int, ...], keep: Filter = lambda _message: True, context_length: int = 512
) -> AsyncIterator[BridgedRoute]:
    """Workers with these layers; `folder` holds the model and the sockets."""
    path = tiny_model(MODEL, folder)
    requests = [
        worker_pb2.LoadRequest(
            engine=worker_pb2.ENGINE_KIND_LLAMA,
            gguf_path=str(path),
            layers=session_pb2.LayerRange(layer_begin=begin, layer_end=end),
            context_length=context_length,
            max_sessions=2,
            threads=1,
            flash_attention=True,
            artifact_digest=b"a" * 32,
        )
        for begin, end in pairwise(bounds)
    ]
    async with contextlib.AsyncExitStack() as stack:
        programs = [
            await stack.enter_async_context(running_program(WORKER, folder / f"{begin}-{len(bounds)}.sock"))
            for begin in bounds[:-1]
        ]
        sockets = [program.socket_path for program in programs]
        route = await stack.enter_async_context(BridgedRoute(sockets, keep=keep))
        await route.load(requests)
        yield route


async def tokens_of(route: BridgedRoute) -> list[int]:
    given = terms(prompt=PROMPT, max_tokens=24, end_tokens=(), chunk_rows=16, step_deadline_ms=60_000)
    answer = await (await open_all(route, given)).generate()
    return [token.token_id for token in answer.tokens]


async def test_contracts_say_who_takes_and_who_gives_them(tmp_path: Path) -> None:
    async with deepseek4_route(tmp_path, BOUNDS) as route:
        head, middle, tail = route.contracts
    assert BOUNDS[1] < HASH_LAYERS <= BOUNDS[2]
    assert [one.needs_token_ids for one in (head, middle, tail)] == [True, True, False]
    assert [one.gives_token_ids for one in (head, middle, tail)] == [True, False, False]
    (given,) = head.outputs
    assert (given.name, given.dtype, given.elements_per_row) == ("hidden", frame_pb2.DTYPE_F32, STREAMS * WIDTH)
    assert list(head.outputs) == list(middle.inputs)
    assert list(middle.outputs) == list(tail.inputs)


async def test_ids_travel_as_far_as_they_are_needed_and_the_tokens_are_the_whole_models(tmp_path: Path) -> None:
    async with deepseek4_route(tmp_path, (0, MODEL.layers)) as whole:
        expected = await tokens_of(whole)
    async with deepseek4_route(tmp_path, BOUNDS) as route:
        found = await tokens_of(route)
        frames = [message.frame for message in route.frames]
    assert found == expected
    assert len(set(found)) > 1
    to_middle = [frame for frame in frames if (frame.from_stage, frame.to_stage) == (0, 1)]
    to_tail = [frame for frame in frames if (frame.from_stage, frame.to_stage) == (1, 2)]
    assert to_middle
    assert to_tail
    assert all(len(frame.token_ids) == frame.rows for frame in to_middle)
    assert not any(frame.token_ids for frame in to_tail)


async def test_a_frame_without_ids_where_they_are_needed_fails_its_session(tmp_path: Path) -> None:
    def strip(message: worker_pb2.BridgeMessage) -> bool:
        if message.HasField("frame") and message.frame.to_stage == 1:
            del message.frame.token_ids[:]
        return True

    given = terms(prompt=PROMPT, max_tokens=4, end_tokens=(), chunk_rows=16, step_deadline_ms=60_000)
    async with deepseek4_route(tmp_path, BOUNDS, strip) as route:
        gateway = await open_all(route, given)
        await gateway.send_prompt()
        failure = await gateway.until_failure()
    assert failure.code == FailureCode.MISSING_TOKEN_IDS


async def decode_frame_bytes(folder: Path, position: int) -> list[int]:
    """Bytes beside their row of the decode frames of this position, of both seams."""
    prompt = tuple((number * 37 + 11) % VOCABULARY for number in range(position - 4))
    given = terms(prompt=prompt, max_tokens=8, end_tokens=(), chunk_rows=64, step_deadline_ms=60_000)
    async with deepseek4_route(folder, BOUNDS, context_length=2_048) as route:
        await (await open_all(route, given)).generate()
        frames = [message.frame for message in route.frames]
    decodes = [
        one for one in frames if one.phase == frame_pb2.PHASE_DECODE and one.position == position and one.tensors
    ]
    assert [(one.from_stage, one.rows) for one in decodes] == [(0, 1), (1, 1)]
    return [one.ByteSize() - ROW_BYTES for one in decodes]


async def test_decode_frames_are_as_large_late_as_early(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two rows would not fit the bound. Source: docs/wire.md, Frames."""
    early = await decode_frame_bytes(tmp_path_factory.mktemp("early"), 10)
    late = await decode_frame_bytes(tmp_path_factory.mktemp("late"), 2_000)
    print(f"beside a row of {ROW_BYTES} bytes: {early} at position 10, {late} at position 2,000")
    assert all(0 < size <= BESIDE_ROW_BYTES < ROW_BYTES for size in early + late)
    # Numbers take more bytes as they grow: position and times.
    assert all(abs(one - other) <= 16 for one, other in zip(early, late, strict=True))
