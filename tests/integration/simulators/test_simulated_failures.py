"""What simulated workers do when something is wrong: typed, told to the Gateway, harmless to others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest

from meshnet.failure_codes import FailureCode
from meshnet.frame import MessageError, write_frame
from meshnet.v1 import worker_pb2
from tests.integration.simulators.routes_of_workers import running_route
from tests.integration.workers.wrong_frames import PROMPT_CHUNK
from tests.simulators.bridged_route import BridgedWorker
from tests.simulators.fake_model import write_fake_model
from tests.simulators.fake_shards import load_request, open_all, terms
from tests.simulators.faults import Faults
from tests.simulators.launcher import write_worker_program
from tests.simulators.plain_gateway import PlainGateway, RouteFailedError
from tests.simulators.route_terms import spec_for
from tests.simulators.worker import running_worker
from tests.simulators.worker_process import running_program


@pytest.mark.parametrize("stage", [0, 1, 2])
async def test_a_failing_engine_names_its_stage(tmp_path: Path, stage: int) -> None:
    async with running_route(tmp_path, [2, 4], faults={stage: Faults(fail_at_position=20)}) as running:
        gateway = await open_all(running.route, terms())
        with pytest.raises(RouteFailedError) as failed:
            await gateway.generate()
        left = [len((await worker.status()).sessions) for worker in running.route.workers]
    assert (failed.value.failure.code, failed.value.failure.stage) == (FailureCode.ENGINE_FAILED, stage)
    assert left[stage] == 0
    assert len(gateway.answer.tokens) == 20 - 12 + 1


async def test_a_stalled_stage_is_found_by_itself_and_by_its_neighbour(tmp_path: Path) -> None:
    given = terms(step_deadline_ms=150)
    async with running_route(tmp_path, [3], faults={1: Faults(stall_at_position=15)}) as running:
        gateway = await open_all(running.route, given)
        with pytest.raises(RouteFailedError) as failed:
            await gateway.generate()
        others = await PlainGateway(running.route, given).until_failure()
    codes = {(failed.value.failure.code, failed.value.failure.stage), (others.code, others.stage)}
    assert codes == {(FailureCode.STEP_TIMEOUT, 1)}


@pytest.mark.parametrize(
    ("faults", "code"),
    [(Faults(bad_token_at_index=3), "bad_token_id"), (Faults(skip_token_at_index=3), "sequence_gap")],
)
async def test_a_lying_tail_is_caught_where_it_can_be(tmp_path: Path, faults: Faults, code: str) -> None:
    async with running_route(tmp_path, [3], faults={1: faults}) as running:
        gateway = await open_all(running.route, terms())
        with pytest.raises(MessageError) as refused:
            await gateway.generate()
    assert (refused.value.code, len(gateway.answer.tokens)) == (code, 3)


async def test_nothing_is_admitted_before_a_load(tmp_path: Path) -> None:
    async with running_worker(tmp_path / "w.sock") as worker:
        client = BridgedWorker(worker.socket_path)
        reply = await client.stub.OpenSession(worker_pb2.OpenSessionRequest())
        await client.close()
    assert (reply.accepted, reply.code) == (False, FailureCode.NOT_READY)


@pytest.mark.parametrize(
    "message",
    [
        worker_pb2.BridgeMessage(),
        worker_pb2.BridgeMessage(frame=write_frame(replace(PROMPT_CHUNK, session=b"short"))),
        worker_pb2.BridgeMessage(frame=write_frame(replace(PROMPT_CHUNK, from_stage=5))),
    ],
    ids=["no_body", "no_session", "foreign_edge"],
)
async def test_a_sender_without_manners_loses_its_bridge_and_nobody_else_anything(
    tmp_path: Path, message: worker_pb2.BridgeMessage
) -> None:
    async with running_route(tmp_path, []) as running:
        gateway = await open_all(running.route, terms())
        rude = BridgedWorker(running.workers[0].socket_path)
        await rude.send(message)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            [batch async for batch in rude.batches()]
        await rude.close()
        await running.route.reconnect(0)
        answer = await gateway.generate()
    assert ended.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(answer.tokens) > 20


async def test_a_load_that_cannot_be(tmp_path: Path) -> None:
    async with running_worker(tmp_path / "w.sock") as worker:
        client = BridgedWorker(worker.socket_path)
        with pytest.raises(grpc.aio.AioRpcError, match="layers_out_of_range: "):
            await client.load(load_request(3, 9))
        with pytest.raises(grpc.aio.AioRpcError, match="unsupported_architecture: "):
            await client.load(worker_pb2.LoadRequest(engine=worker_pb2.ENGINE_KIND_LLAMA))
        await client.close()


async def test_the_program_serves_the_fake_file_and_ends_when_told(tmp_path: Path) -> None:
    model = write_fake_model(tmp_path / "fake.gguf", n_layers=5, width=8)
    async with running_program(write_worker_program(tmp_path), tmp_path / "w.sock") as running:
        client = BridgedWorker(running.socket_path)
        contract = await client.load(worker_pb2.LoadRequest(engine=worker_pb2.ENGINE_KIND_FAKE, gguf_path=str(model)))
        await client.close()
    assert running.ready["ready"] is True
    assert running.process.returncode == 0
    assert (contract.n_layers, contract.layers.layer_end) == (5, 5)


async def test_the_program_ends_with_its_parent(tmp_path: Path) -> None:
    program = write_worker_program(tmp_path)
    arguments = [str(program), "--socket", str(tmp_path / "w.sock"), "--parent-pid", "1"]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.DEVNULL)
    async with asyncio.timeout(20):
        assert await process.wait() == 0


async def test_a_crash_is_a_dead_process(tmp_path: Path) -> None:
    program = write_worker_program(tmp_path, Faults(crash_at_position=0))
    async with running_program(program, tmp_path / "w.sock") as running:
        client = BridgedWorker(running.socket_path)
        contract = await client.load(load_request(0, 8))
        spec = spec_for(terms(), 0, [contract])
        await client.stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec))
        await client.send(worker_pb2.BridgeMessage(frame=write_frame(PROMPT_CHUNK)))
        async with asyncio.timeout(20):
            assert await running.process.wait() == 70
        await client.close()


def test_faults_reach_the_command_line(tmp_path: Path) -> None:
    program = write_worker_program(tmp_path, Faults(step_delay_ms=5, garble_rows=True, refuse_open="paused"))
    text = program.read_text()
    assert sys.executable in text
    assert "--fault-step-delay-ms=5 --fault-refuse-open=paused --fault-garble-rows" in text
