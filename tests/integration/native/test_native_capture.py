"""The capture of logits, for debugging: given by meshnet-worker-measure alone, and never in anyone's way."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import grpc
import grpc.aio
import pytest

from meshnet.v1 import measure_pb2, worker_pb2
from tests.integration.native.native_routes import MEASURE_WORKER, NativeRoute, native_route
from tests.simulators.bridged_route import CALL_TIMEOUT_S
from tests.simulators.fake_engine import VOCAB_SIZE
from tests.simulators.fake_shards import KEY, terms

pytestmark = pytest.mark.native


async def begin(running: NativeRoute) -> grpc.aio.UnaryStreamCall:
    """A capture on the tail, once it runs."""
    call = running.route.workers[-1].measure.CaptureLogits(measure_pb2.CaptureLogitsRequest())
    async with asyncio.timeout(CALL_TIMEOUT_S):
        await call.initial_metadata()
    return call


async def refusal(call: grpc.aio.UnaryStreamCall) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            await call.read()
    return refused.value.code(), str(refused.value.details())


async def test_the_shipped_worker_does_not_know_it(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3]) as running:
        call = running.route.workers[-1].measure.CaptureLogits(measure_pb2.CaptureLogitsRequest())
        code, _message = await refusal(call)
    assert code is grpc.StatusCode.UNIMPLEMENTED


async def test_it_gives_the_rows_that_the_tokens_were_drawn_from(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3], worker=MEASURE_WORKER) as running:
        call = await begin(running)
        given = terms()
        answer = await (await running.open_direct(given)).generate()
        rows = [await asyncio.wait_for(call.read(), CALL_TIMEOUT_S) for _ in answer.tokens]
        call.cancel()
    drawn = []
    for row in rows:
        assert (row.session, row.epoch) == (KEY.session, KEY.epoch)
        logits = struct.unpack(f"<{VOCAB_SIZE}f", row.logits)
        drawn.append(logits.index(max(logits)))
    assert len(drawn) > 10
    assert drawn == answer.token_ids
    first = len(given.prompt)
    assert [row.position for row in rows] == list(range(first, first + len(rows)))


async def test_one_reader_at_a_time_and_another_after_it(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3], worker=MEASURE_WORKER) as running:
        first = await begin(running)
        second = running.route.workers[-1].measure.CaptureLogits(measure_pb2.CaptureLogitsRequest())
        code, _message = await refusal(second)
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        first.cancel()
        async with asyncio.timeout(CALL_TIMEOUT_S):
            while True:
                try:
                    await begin(running)
                    break
                except grpc.aio.AioRpcError:
                    continue  # the worker has not seen the first one's end yet


async def test_a_capture_does_not_put_off_unloading(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3], worker=MEASURE_WORKER) as running:
        call = await begin(running)
        stub = running.route.workers[-1].stub
        await stub.Unload(worker_pb2.UnloadRequest(), timeout=CALL_TIMEOUT_S)
        code, message = await refusal(call)
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert message.startswith("not_ready")
