"""What native workers do when something is wrong: typed, told to the Gateway, harmless to other sessions."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from meshnet.failure_codes import FailureCode
from meshnet.frame import write_frame
from meshnet.v1 import worker_pb2
from tests.integration.native.native_routes import WORKER, native_route
from tests.integration.workers.wrong_frames import PROMPT_CHUNK
from tests.simulators.bridged_route import BridgedWorker
from tests.simulators.fake_shards import WIDTH, load_request, open_all, terms
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.worker_process import running_program

pytestmark = pytest.mark.native


async def test_what_names_no_session_is_dropped_and_counted(tmp_path: Path) -> None:
    """The bridge is the agent's own connection: it carries everybody, so it is not closed for one packet."""
    async with native_route(tmp_path, []) as running:
        gateway = await open_all(running.route, terms())
        for frame in (replace(PROMPT_CHUNK, session=b"short"), replace(PROMPT_CHUNK, epoch=0)):
            await running.route.workers[0].send(worker_pb2.BridgeMessage(frame=write_frame(frame)))
        await running.route.workers[0].send(worker_pb2.BridgeMessage())
        answer = await gateway.generate()
        status = await running.route.workers[0].status()
    assert len(answer.tokens) > 20
    assert status.frames_refused == 2


async def test_an_edge_that_is_not_the_senders_fails_the_session(tmp_path: Path) -> None:
    async with native_route(tmp_path, []) as running:
        await open_all(running.route, terms())
        await running.route.send_frame(replace(PROMPT_CHUNK, from_stage=5))
        failure = await PlainGateway(running.route, terms()).until_failure()
    assert failure.code == FailureCode.EDGE_NOT_PERMITTED


async def test_garbage_on_the_bridge_ends_that_call_only(tmp_path: Path) -> None:
    async with native_route(tmp_path, []) as running:
        gateway = await open_all(running.route, terms())
        async with grpc.aio.insecure_channel(f"unix:{running.programs[0].socket_path}") as channel:
            raw = channel.stream_stream("/meshnet.v1.Worker/Bridge")()
            await raw.write(b"\xff" * 1000)
            with pytest.raises(grpc.aio.AioRpcError):
                [message async for message in raw]
        await running.route.reconnect(0)
        answer = await gateway.generate()
    assert len(answer.tokens) > 20


async def test_a_step_that_takes_too_long_fails_its_session_while_it_runs(tmp_path: Path) -> None:
    """The engine needs 12 rows x 8 layers x 20 ms; the watchdog does not wait for it."""
    given = terms(step_deadline_ms=200)
    async with native_route(tmp_path, [], step_us=20_000) as running:
        gateway = await open_all(running.route, given)
        await gateway.send_prompt()
        failure = await gateway.until_failure()
        status = await running.route.workers[0].status()
    assert (failure.code, failure.stage) == (FailureCode.STEP_TIMEOUT, 0)
    assert status.computing
    assert not status.sessions


async def test_loads_that_cannot_be_and_unload(tmp_path: Path) -> None:
    async with running_program(WORKER, tmp_path / "w.sock") as running:
        client = BridgedWorker(running.socket_path)
        reply = await client.stub.OpenSession(worker_pb2.OpenSessionRequest())
        assert reply.code == FailureCode.NOT_READY
        with pytest.raises(grpc.aio.AioRpcError, match="layers_out_of_range: "):
            await client.load(load_request(3, 9))
        missing = worker_pb2.LoadRequest(engine=worker_pb2.ENGINE_KIND_LLAMA, gguf_path=str(tmp_path / "absent.gguf"))
        with pytest.raises(grpc.aio.AioRpcError, match="file_missing: "):
            await client.load(missing)
        await client.load(load_request(0, 8))
        with pytest.raises(grpc.aio.AioRpcError, match="not_ready: "):
            await client.load(load_request(0, 8))
        assert (await client.status()).ready
        await client.stub.Unload(worker_pb2.UnloadRequest())
        assert not (await client.status()).ready
        await client.load(load_request(0, 8))
        await client.close()


async def test_probe_gives_the_rows(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3]) as running:
        head, tail = (worker.stub for worker in running.route.workers)
        hidden = await head.Probe(worker_pb2.ProbeRequest(token_ids=[1, 2, 3], want_outputs=True))
        logits = await tail.Probe(worker_pb2.ProbeRequest(tensors=hidden.outputs, want_outputs=True))
        with pytest.raises(grpc.aio.AioRpcError, match="bad_token_id: "):
            await head.Probe(worker_pb2.ProbeRequest(token_ids=[260]))
    assert (hidden.outputs[0].name, list(hidden.outputs[0].shape)) == ("hidden", [3, WIDTH])
    assert (logits.outputs[0].name, list(logits.outputs[0].shape)) == ("logits", [3, 260])


async def test_status_is_watched(tmp_path: Path) -> None:
    async with native_route(tmp_path, []) as running:
        call = running.route.workers[0].stub.WatchStatus(worker_pb2.WatchStatusRequest(interval_ms=100))
        async with asyncio.timeout(10):
            replies = [await call.read() for _ in range(3)]
        call.cancel()
    assert all(reply.ready and reply.resident_bytes > 0 for reply in replies)


async def test_the_worker_ends_with_its_parent_and_when_told(tmp_path: Path) -> None:
    orphan = await asyncio.create_subprocess_exec(
        str(WORKER), "--socket", str(tmp_path / "o.sock"), "--parent-pid", "1", stdout=subprocess.DEVNULL
    )
    async with asyncio.timeout(20):
        assert await orphan.wait() == 0
    async with running_program(WORKER, tmp_path / "w.sock") as running:
        client = BridgedWorker(running.socket_path)
        await client.load(load_request(0, 8))
        running.process.terminate()
        async with asyncio.timeout(10):
            assert await running.process.wait() == 0
        await client.close()
    assert not (tmp_path / "w.sock").exists()
