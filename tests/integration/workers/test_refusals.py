"""What workers do when something is wrong: typed, told to the Gateway, harmless to other sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from meshnet.constants import GATEWAY_STAGE
from meshnet.failure_codes import FailureCode
from meshnet.frame import Ack, Close, EdgeMessage, Keepalive, SessionGone
from meshnet.ids import Address, Edge, SessionKey
from meshnet.v1 import frame_pb2, worker_pb2
from tests.integration.native.native_routes import until_free
from tests.integration.workers.worker_kinds import Routes
from tests.integration.workers.wrong_frames import PROMPT_CHUNK, SEAM_FRAME, WRONG_AT_THE_HEAD, WRONG_AT_THE_SEAM
from tests.simulators.fake_engine import VOCAB_SIZE
from tests.simulators.fake_shards import KEY, WIDTH, open_all, terms
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import spec_for

BYSTANDER = SessionKey(b"another session!", 1)


def not_from_the_tail_to_the_gateway(message: worker_pb2.BridgeMessage) -> bool:
    """Whether a message of a route of two stages is no word of its tail to the Gateway."""
    return not (message.HasField("edge") and (message.edge.from_stage, message.edge.to_stage) == (1, GATEWAY_STAGE))


@pytest.mark.parametrize(("change", "code"), WRONG_AT_THE_HEAD, ids=lambda value: str(value)[:40])
async def test_a_wrong_frame_at_the_head_fails_its_session_only(
    routes: Routes, change: dict[str, Any], code: FailureCode
) -> None:
    async with routes([3]) as route:
        await open_all(route, terms())
        await open_all(route, terms(key=BYSTANDER))
        await route.send_frame(replace(PROMPT_CHUNK, **change))
        failure = await PlainGateway(route, terms()).until_failure()
        answer = await PlainGateway(route, terms(key=BYSTANDER)).generate()
        status = await route.workers[0].status()
    assert (failure.code, failure.stage) == (code, 0)
    assert len(answer.tokens) > 20
    assert status.frames_refused == 1
    assert [one.session for one in status.sessions] == [BYSTANDER.session]


@pytest.mark.parametrize(("change", "code"), WRONG_AT_THE_SEAM, ids=lambda value: str(value)[:40])
async def test_wrong_rows_fail_their_session_only(routes: Routes, change: dict[str, Any], code: FailureCode) -> None:
    async with routes([3]) as route:
        await open_all(route, terms())
        await open_all(route, terms(key=BYSTANDER))
        await route.send_frame(replace(SEAM_FRAME, **change))
        failure = await PlainGateway(route, terms()).until_failure()
        answer = await PlainGateway(route, terms(key=BYSTANDER)).generate()
        status = await route.workers[1].status()
    # The fault is the sender's: the stage before.
    assert (failure.code, failure.stage) == (code, 0)
    assert len(answer.tokens) > 20
    assert (status.frames_refused, status.kv_cells_reserved) == (1, 52)


async def test_a_frame_without_credit_fails_its_session(routes: Routes) -> None:
    given = terms(prompt=(65,) * 12, window_frames=1)
    async with routes([], step_us=20_000) as route:
        await open_all(route, given)
        for seq in range(2):
            chunk = replace(PROMPT_CHUNK, seq=seq, position=seq, rows=1, token_ids=(65,), prompt_end=False)
            await route.send_frame(chunk)
        failure = await PlainGateway(route, given).until_failure()
    assert failure.code == FailureCode.WINDOW_EXCEEDED


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (SessionKey(b"no such session!", 1), FailureCode.UNKNOWN_SESSION),
        (SessionKey(KEY.session, 3), FailureCode.UNKNOWN_SESSION),
        (SessionKey(KEY.session, 1), FailureCode.OLD_EPOCH),
    ],
)
async def test_strays_are_counted_and_answered(routes: Routes, key: SessionKey, code: FailureCode) -> None:
    stray = replace(PROMPT_CHUNK, session=key.session, epoch=key.epoch)
    async with routes([]) as route:
        await open_all(route, terms(key=SessionKey(KEY.session, 2)))
        await route.send_frame(stray)
        message = await route.receive()
        status = await route.workers[0].status()
    assert (message.key, message.edge, message.body) == (key, Edge(127, 0), SessionGone(code))
    assert (status.frames_stray, len(status.sessions)) == (1, 1)


async def test_a_repeat_is_counted_and_acknowledged_once_more(routes: Routes) -> None:
    async with routes([]) as route:
        first = await (await open_all(route, terms())).generate()
        await route.send_frame(PROMPT_CHUNK)
        message = await route.receive()
        status = await route.workers[0].status()
    assert isinstance(message.body, Ack)
    assert (message.edge, message.body.seq, status.frames_repeated) == (Edge(127, 0), 0, 1)
    assert len(first.tokens) > 20


async def test_an_acknowledgement_of_what_was_never_sent_fails_the_session(routes: Routes) -> None:
    async with routes([]) as route:
        await open_all(route, terms())
        await route.send_edge(EdgeMessage.on(Address(KEY, Edge(0, 127)), Ack(7)), 0)
        failure = await PlainGateway(route, terms()).until_failure()
    assert failure.code == FailureCode.MALFORMED


async def test_the_gateways_silence_stops_the_tail_at_the_window(routes: Routes) -> None:
    given = terms(gateway_grace_ms=100)
    async with routes([3]) as route:
        await open_all(route, given)
        silent = PlainGateway(route, given, acknowledges=False)
        await silent.send_prompt()
        failure = await silent.until_failure()
        await until_free(route.workers[1])
        status = await route.workers[1].status()
    assert len(silent.answer.tokens) == given.token_window
    assert (failure.code, failure.stage) == (FailureCode.GATEWAY_LOST, 1)
    assert (status.kv_cells_reserved, len(status.sessions)) == (0, 0)


async def test_a_tail_that_the_gateway_cannot_hear_is_reported_by_its_neighbour(routes: Routes) -> None:
    """As behind an agent that hangs: tokens and failure reach nobody, and the head has nothing in flight."""
    given = terms(gateway_grace_ms=100)
    async with routes([3], keep=not_from_the_tail_to_the_gateway) as route:
        gateway = await open_all(route, given)
        await gateway.send_prompt()
        failure = await gateway.until_failure()
        await until_free(*route.workers)
    assert (failure.code, failure.stage) == (FailureCode.STAGE_LOST, 1)
    assert gateway.answer.tokens == []


async def test_silence_ends_a_session(routes: Routes) -> None:
    given = terms(idle_ms=100)
    async with routes([]) as route:
        await open_all(route, given)
        failure = await PlainGateway(route, given).until_failure()
        await until_free(*route.workers)
    assert failure.code == FailureCode.IDLE


async def test_a_keepalive_ends_the_silence(routes: Routes) -> None:
    given = terms(idle_ms=300)
    address = Address(KEY, Edge(127, 0))
    async with routes([]) as route:
        await open_all(route, given)
        for _ in range(6):
            await route.send_edge(EdgeMessage.on(address, Keepalive()), 0)
            with pytest.raises(TimeoutError):
                await route.receive(timeout_s=0.1)
        assert len((await route.workers[0].status()).sessions) == 1


async def test_a_lost_acknowledgement_is_found_by_the_stage_that_waits(routes: Routes) -> None:
    def lose_acks(message: worker_pb2.BridgeMessage) -> bool:
        return not (message.HasField("edge") and message.edge.HasField("ack") and message.edge.from_stage == 0)

    given = terms(step_deadline_ms=300)
    async with routes([3], keep=lose_acks) as route:
        gateway = await open_all(route, given)
        await gateway.send_prompt()
        failure = await gateway.until_failure()
    assert (failure.code, failure.stage) == (FailureCode.STEP_TIMEOUT, 1)


async def test_close_by_the_gateways_message_frees_the_session(routes: Routes) -> None:
    async with routes([]) as route:
        await open_all(route, terms())
        await route.send_edge(EdgeMessage.on(Address(KEY, Edge(127, 0)), Close("cancelled")), 0)
        await route.send_frame(PROMPT_CHUNK)
        message = await route.receive()
        status = await route.workers[0].status()
    assert message.body == SessionGone(FailureCode.UNKNOWN_SESSION)
    assert not status.sessions


async def test_close_is_idempotent_and_remembered(routes: Routes) -> None:
    async with routes([]) as route:
        stub = route.workers[0].stub
        unknown = await stub.CloseSession(worker_pb2.CloseSessionRequest(session=KEY.session, epoch=1))
        (late,) = await route.open(terms())
        await open_all(route, terms(key=BYSTANDER))
        closes = [
            await stub.CloseSession(worker_pb2.CloseSessionRequest(session=BYSTANDER.session, epoch=epoch))
            for epoch in (0, 1, 1)
        ]
        status = await route.workers[0].status()
    assert not unknown.was_open
    # Cancelled before it was opened: the open that comes late must not bring it back.
    assert late.code == FailureCode.OLD_EPOCH
    assert [close.was_open for close in closes] == [False, True, False]
    assert status.kv_cells_reserved == 0


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
async def test_admission(routes: Routes, change: dict[str, Any], code: FailureCode) -> None:
    async with routes([], kv_cells=1000, max_sessions=2) as route:
        await open_all(route, terms())
        (reply,) = await route.open(terms(**({"key": BYSTANDER} | change)))
    assert (reply.accepted, reply.code) == (False, code)


async def test_edges_that_cannot_carry_a_row_are_refused(routes: Routes) -> None:
    row_bytes = 4 * WIDTH
    async with routes([3]) as route:
        replies = []
        for window_bytes, repeated in ((row_bytes - 1, False), (row_bytes, True), (row_bytes, False)):
            spec = spec_for(terms(), 0, route.contracts)
            (seam,) = [edge for edge in spec.edges if (edge.from_stage, edge.to_stage) == (0, 1)]
            seam.window_bytes = window_bytes
            if repeated:
                spec.edges.append(seam)
            reply = await route.workers[0].stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec))
            replies.append((reply.accepted, reply.code, reply.message))
    assert replies == [
        (False, FailureCode.MALFORMED, "an edge's window is too small for one row"),
        (False, FailureCode.MALFORMED, "an edge is named twice"),
        (True, "", ""),
    ]


async def test_a_place_is_free_again_at_once_after_close(routes: Routes) -> None:
    async with routes([], max_sessions=1) as route:
        for number in range(20):
            key = SessionKey(bytes([number]) * 16, 1)
            await open_all(route, terms(key=key))
            (refused,) = await route.open(terms(key=BYSTANDER))
            assert refused.code == FailureCode.TOO_MANY_SESSIONS
            request = worker_pb2.CloseSessionRequest(session=key.session, epoch=1)
            assert (await route.workers[0].stub.CloseSession(request)).was_open


async def test_another_contract_is_refused(routes: Routes) -> None:
    async with routes([3]) as route:
        spec = spec_for(terms(), 0, route.contracts)
        codes = []
        changes: list[dict[str, object]] = [
            {"contract_digest": b"x" * 32},
            {"recipe": "another"},
            {"recipe": "", "exact": True},
            {"stage": 1},
            {"layers": None},
        ]
        for change in changes:
            changed = type(spec).FromString(spec.SerializeToString())
            for name, value in change.items():
                changed.ClearField(name) if value is None else setattr(changed, name, value)
            reply = await route.workers[0].stub.OpenSession(worker_pb2.OpenSessionRequest(spec=changed))
            codes.append(reply.code)
        # The control: without a recipe of its own the route may be mixed, which is no mismatch.
        spec.recipe = ""
        mixed = await route.workers[0].stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec))
    assert codes == [FailureCode.CONTRACT_MISMATCH] * 5
    assert (mixed.accepted, mixed.code) == (True, "")


async def test_probe_gives_rows_where_they_are_wanted(routes: Routes) -> None:
    async with routes([3]) as route:
        stubs = [worker.stub for worker in route.workers]
        replies = [await stub.Probe(worker_pb2.ProbeRequest(token_ids=[1, 2])) for stub in stubs]
        wanted = [await stub.Probe(worker_pb2.ProbeRequest(token_ids=[1, 2], want_outputs=True)) for stub in stubs]
    assert {len(reply.output_digest) for reply in replies} == {32}
    assert [len(reply.outputs) for reply in replies] == [0, 0]
    assert [list(reply.outputs[0].shape) for reply in wanted] == [[2, 16], [2, VOCAB_SIZE]]


async def test_probe_gives_the_same_rows_one_by_one_as_at_once(routes: Routes) -> None:
    compared = 0
    async with routes([3]) as route:
        taken: list[frame_pb2.Tensor] = []
        for worker in route.workers:
            given = []
            for step_rows in (0, 1, 2, 7):
                request = worker_pb2.ProbeRequest(
                    token_ids=[5, 6, 7], tensors=taken, want_outputs=True, step_rows=step_rows
                )
                reply = await worker.stub.Probe(request)
                given.append((reply.output_digest, reply.outputs[0].data))
                compared += reply.outputs[0].shape[0]
            taken = list(reply.outputs)
            assert len(set(given)) == 1
    print(f"rows compared: {compared}")
    assert compared == 24
