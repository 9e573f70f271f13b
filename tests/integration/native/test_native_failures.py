"""What native workers do when something is wrong: typed, told to the Gateway, harmless to other sessions."""

from __future__ import annotations

import asyncio
import math
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from meshnet.failure_codes import FailureCode
from meshnet.frame import Ack, Close, Codec, DType, EdgeMessage, Frame, Phase, SessionGone, Tensor, write_frame
from meshnet.ids import Address, Edge, SessionKey
from meshnet.v1 import session_pb2, worker_pb2
from tests.integration.native.native_routes import WORKER, native_route, until_free
from tests.simulators.bridged_route import BridgedWorker
from tests.simulators.fake_shards import KEY, WIDTH, load_request, open_all, terms
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import spec_for
from tests.simulators.worker_process import running_program

pytestmark = pytest.mark.native

BYSTANDER = SessionKey(b"another session!", 1)
PROMPT_CHUNK = Frame(
    KEY.session, KEY.epoch, 127, 0, 0, Phase.PREFILL, 0, 12, prompt_end=True, token_ids=tuple(terms().prompt)
)


def rows(count: int, *, width: int = WIDTH, value: float = 1.0) -> Tensor:
    data = struct.pack(f"<{count * width}f", *[value] * (count * width))
    return Tensor("hidden", DType.F32, (count, width), Codec.RAW, data)


SEAM_FRAME = Frame(KEY.session, KEY.epoch, 0, 1, 0, Phase.PREFILL, 0, 12, prompt_end=True, tensors=(rows(12),))
UNPACKED = replace(rows(12), data=b"\0" * (12 * WIDTH * 4 - 4))
F16_ROWS = Tensor("hidden", DType.F16, (12, WIDTH), Codec.RAW, b"\0" * (12 * WIDTH * 2))

WRONG_AT_THE_HEAD = [
    ({"seq": 1}, FailureCode.SEQUENCE_GAP),
    ({"position": 1}, FailureCode.MALFORMED),
    ({"token_ids": (*PROMPT_CHUNK.token_ids[:11], 260)}, FailureCode.BAD_TOKEN_ID),
    ({"token_ids": ()}, FailureCode.MISSING_TOKEN_IDS),
    ({"token_ids": (1,)}, FailureCode.MALFORMED),
    ({"tensors": (rows(12),)}, FailureCode.WRONG_SHAPE),
    ({"prompt_end": False}, FailureCode.MALFORMED),
    ({"phase": Phase.DECODE, "rows": 1, "token_ids": (1,), "prompt_end": False}, FailureCode.MALFORMED),
    ({"phase": Phase.VERIFY, "prompt_end": False}, FailureCode.MALFORMED),
    ({"logits_rows": (3,)}, FailureCode.MALFORMED),
    ({"rows": 0, "token_ids": ()}, FailureCode.MALFORMED),
]
WRONG_AT_THE_SEAM = [
    ({"position": 3}, FailureCode.WRONG_POSITION),
    ({"tensors": ()}, FailureCode.WRONG_SHAPE),
    ({"tensors": (replace(rows(12), name="rows"),)}, FailureCode.WRONG_SHAPE),
    ({"tensors": (rows(12, width=WIDTH + 1),)}, FailureCode.WRONG_SHAPE),
    ({"tensors": (rows(11),)}, FailureCode.WRONG_SHAPE),
    ({"tensors": (UNPACKED,)}, FailureCode.WRONG_SIZE),
    ({"tensors": (F16_ROWS,)}, FailureCode.WRONG_DTYPE),
    ({"tensors": (rows(12, value=math.nan),)}, FailureCode.NOT_FINITE),
    ({"tensors": (rows(12, value=-math.inf),)}, FailureCode.NOT_FINITE),
    ({"rows": 4096, "tensors": (rows(4096),)}, FailureCode.WRONG_SHAPE),
]


@pytest.mark.parametrize(("change", "code"), WRONG_AT_THE_HEAD, ids=lambda value: str(value)[:40])
async def test_a_wrong_frame_at_the_head_fails_its_session_only(
    tmp_path: Path, change: dict[str, object], code: str
) -> None:
    async with native_route(tmp_path, [3]) as running:
        await open_all(running.route, terms())
        await open_all(running.route, terms(key=BYSTANDER))
        await running.route.send_frame(replace(PROMPT_CHUNK, **change))
        failure = await PlainGateway(running.route, terms()).until_failure()
        answer = await PlainGateway(running.route, terms(key=BYSTANDER)).generate()
        status = await running.route.workers[0].status()
    assert (failure.code, failure.stage) == (code, 0)
    assert len(answer.tokens) > 20
    assert status.frames_refused == 1
    assert [one.session for one in status.sessions] == [BYSTANDER.session]


@pytest.mark.parametrize(("change", "code"), WRONG_AT_THE_SEAM, ids=lambda value: str(value)[:40])
async def test_wrong_rows_fail_their_session_only(tmp_path: Path, change: dict[str, object], code: str) -> None:
    async with native_route(tmp_path, [3]) as running:
        await open_all(running.route, terms())
        await open_all(running.route, terms(key=BYSTANDER))
        await running.route.send_frame(replace(SEAM_FRAME, **change))
        failure = await PlainGateway(running.route, terms()).until_failure()
        answer = await PlainGateway(running.route, terms(key=BYSTANDER)).generate()
        status = await running.route.workers[1].status()
    # The fault is the sender's: the stage before.
    assert (failure.code, failure.stage) == (code, 0)
    assert len(answer.tokens) > 20
    assert (status.frames_refused, status.kv_cells_reserved) == (1, 52)


async def test_a_frame_without_credit_fails_its_session(tmp_path: Path) -> None:
    given = terms(prompt=(65,) * 12, window_frames=1)
    async with native_route(tmp_path, [], step_us=20_000) as running:
        await open_all(running.route, given)
        for seq in range(2):
            chunk = replace(PROMPT_CHUNK, seq=seq, position=seq, rows=1, token_ids=(65,), prompt_end=False)
            await running.route.send_frame(chunk)
        failure = await PlainGateway(running.route, given).until_failure()
    assert failure.code == FailureCode.WINDOW_EXCEEDED


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (SessionKey(b"no such session!", 1), FailureCode.UNKNOWN_SESSION),
        (SessionKey(KEY.session, 3), FailureCode.UNKNOWN_SESSION),
        (SessionKey(KEY.session, 1), FailureCode.OLD_EPOCH),
    ],
)
async def test_strays_are_counted_and_answered(tmp_path: Path, key: SessionKey, code: str) -> None:
    stray = replace(PROMPT_CHUNK, session=key.session, epoch=key.epoch)
    async with native_route(tmp_path, []) as running:
        await open_all(running.route, terms(key=SessionKey(KEY.session, 2)))
        await running.route.send_frame(stray)
        message = await running.route.receive()
        status = await running.route.workers[0].status()
    assert (message.key, message.edge, message.body) == (key, Edge(127, 0), SessionGone(code))
    assert (status.frames_stray, len(status.sessions)) == (1, 1)


async def test_a_repeat_is_counted_and_acknowledged_once_more(tmp_path: Path) -> None:
    async with native_route(tmp_path, []) as running:
        gateway = await open_all(running.route, terms())
        first = await gateway.generate()
        await running.route.send_frame(PROMPT_CHUNK)
        message = await running.route.receive()
        status = await running.route.workers[0].status()
    assert (message.edge, message.body.seq, status.frames_repeated) == (Edge(127, 0), 0, 1)
    assert len(first.tokens) > 20


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


async def test_an_acknowledgement_of_what_was_never_sent_fails_the_session(tmp_path: Path) -> None:
    async with native_route(tmp_path, []) as running:
        await open_all(running.route, terms())
        await running.route.send_edge(EdgeMessage.on(Address(KEY, Edge(0, 127)), Ack(7)), 0)
        failure = await PlainGateway(running.route, terms()).until_failure()
    assert failure.code == FailureCode.MALFORMED


async def test_the_gateways_silence_stops_the_tail_at_the_window(tmp_path: Path) -> None:
    given = terms(gateway_grace_ms=100)
    async with native_route(tmp_path, [3]) as running:
        await open_all(running.route, given)
        silent = PlainGateway(running.route, given, acknowledges=False)
        await silent.send_prompt()
        failure = await silent.until_failure()
        await until_free(running.route.workers[1])
        status = await running.route.workers[1].status()
    assert len(silent.answer.tokens) == given.token_window
    assert (failure.code, failure.stage) == (FailureCode.GATEWAY_LOST, 1)
    assert (status.kv_cells_reserved, len(status.sessions)) == (0, 0)


async def test_silence_ends_a_session(tmp_path: Path) -> None:
    given = terms(idle_ms=100)
    async with native_route(tmp_path, []) as running:
        await open_all(running.route, given)
        failure = await PlainGateway(running.route, given).until_failure()
    assert failure.code == FailureCode.IDLE


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


async def test_a_lost_acknowledgement_is_found_by_the_stage_that_waits(tmp_path: Path) -> None:
    def lose_acks(message: worker_pb2.BridgeMessage) -> bool:
        return not (message.HasField("edge") and message.edge.HasField("ack") and message.edge.from_stage == 0)

    given = terms(step_deadline_ms=300)
    async with native_route(tmp_path, [3], keep=lose_acks) as running:
        gateway = await open_all(running.route, given)
        await gateway.send_prompt()
        failure = await gateway.until_failure()
    assert (failure.code, failure.stage) == (FailureCode.STEP_TIMEOUT, 1)


async def test_close_is_idempotent_and_remembered(tmp_path: Path) -> None:
    async with native_route(tmp_path, []) as running:
        stub = running.route.workers[0].stub
        request = worker_pb2.CloseSessionRequest(session=KEY.session, epoch=1)
        unknown = await stub.CloseSession(request)
        (late,) = await running.route.open(terms())
        await open_all(running.route, terms(key=BYSTANDER))
        closes = [
            await stub.CloseSession(worker_pb2.CloseSessionRequest(session=BYSTANDER.session, epoch=epoch))
            for epoch in (0, 1, 1)
        ]
        status = await running.route.workers[0].status()
    assert not unknown.was_open
    # Cancelled before it was opened: the open that comes late must not bring it back.
    assert late.code == FailureCode.OLD_EPOCH
    assert [close.was_open for close in closes] == [False, True, False]
    assert status.kv_cells_reserved == 0


async def test_close_by_the_gateways_message_frees_the_session(tmp_path: Path) -> None:
    async with native_route(tmp_path, []) as running:
        await open_all(running.route, terms())
        await running.route.send_edge(EdgeMessage.on(Address(KEY, Edge(127, 0)), Close("cancelled")), 0)
        await running.route.send_frame(PROMPT_CHUNK)
        message = await running.route.receive()
        status = await running.route.workers[0].status()
    assert message.body == SessionGone(FailureCode.UNKNOWN_SESSION)
    assert not status.sessions


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"key": KEY}, FailureCode.SESSION_EXISTS),
        ({"max_tokens": 5000}, FailureCode.KV_EXHAUSTED),
        ({"prompt": (1,) * 4097}, FailureCode.CONTEXT_FULL),
        ({"committed": (260,)}, FailureCode.BAD_TOKEN_ID),
        ({"max_tokens": 1, "committed": (1,)}, FailureCode.MALFORMED),
        ({"window_frames": 0}, FailureCode.MALFORMED),
    ],
    ids=lambda value: str(value)[:24],
)
async def test_admission(tmp_path: Path, change: dict[str, object], code: str) -> None:
    async with native_route(tmp_path, [], kv_cells=1000, max_sessions=2) as running:
        await open_all(running.route, terms())
        (reply,) = await running.route.open(terms(**({"key": BYSTANDER} | change)))
    assert (reply.accepted, reply.code) == (False, code)


async def test_a_sequence_is_free_again_at_once_after_close(tmp_path: Path) -> None:
    async with native_route(tmp_path, [], max_sessions=1) as running:
        for number in range(50):
            key = SessionKey(bytes([number]) * 16, 1)
            await open_all(running.route, terms(key=key))
            (refused,) = await running.route.open(terms(key=BYSTANDER))
            assert refused.code == FailureCode.TOO_MANY_SESSIONS
            request = worker_pb2.CloseSessionRequest(session=key.session, epoch=1)
            assert (await running.route.workers[0].stub.CloseSession(request)).was_open


async def test_another_contract_is_refused(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3]) as running:
        spec = spec_for(terms(), 0, running.route.contracts)
        codes = []
        for change in ({"contract_digest": b"x" * 32}, {"stage": 1}, {"layers": None}):
            changed = session_pb2.SessionSpec.FromString(spec.SerializeToString())
            for name, value in change.items():
                changed.ClearField(name) if value is None else setattr(changed, name, value)
            reply = await running.route.workers[0].stub.OpenSession(worker_pb2.OpenSessionRequest(spec=changed))
            codes.append(reply.code)
    assert codes == [FailureCode.CONTRACT_MISMATCH] * 3


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


async def test_probe_needs_permission_for_tensors_only(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3]) as running:
        stubs = [worker.stub for worker in running.route.workers]
        replies = [await stub.Probe(worker_pb2.ProbeRequest(token_ids=[1, 2])) for stub in stubs]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stubs[0].Probe(worker_pb2.ProbeRequest(want_outputs=True))
    assert {len(reply.output_digest) for reply in replies} == {32}
    assert [len(reply.outputs) for reply in replies] == [0, 0]
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_probe_with_permission_gives_the_rows(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3], arguments=("--allow-probe",)) as running:
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
