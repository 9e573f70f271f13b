"""Links between workers: who is let in, what a peer may say, and what its loss does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from meshnet.failure_codes import FailureCode
from meshnet.frame import Ack, EdgeMessage, Frame, Phase, write_edge_message, write_frame
from meshnet.ids import Address, Edge, SessionKey
from meshnet.v1 import link_pb2, session_pb2, worker_pb2
from tests.integration.native.hostile_peer import PeerCertificate, dialled, hello
from tests.integration.native.native_routes import NativeRoute, native_route, until_free
from tests.integration.workers.test_refusals import not_from_the_tail_to_the_gateway
from tests.integration.workers.wrong_frames import rows
from tests.simulators.bridged_route import CALL_TIMEOUT_S
from tests.simulators.fake_shards import KEY, open_all, terms
from tests.simulators.plain_gateway import PlainGateway

pytestmark = pytest.mark.native

BYSTANDER = SessionKey(b"another session!", 1)
CHUNK = Frame(KEY.session, KEY.epoch, 0, 1, 0, Phase.PREFILL, 0, 12, prompt_end=True, tensors=(rows(12),))
AN_ACK = write_edge_message(EdgeMessage.on(Address(SessionKey(b"no such session!", 1), Edge(1, 0)), Ack(0)))
AN_ITEM = link_pb2.LinkItem(edge=AN_ACK)
KILLED_WITHIN_S = 1.0
STRANGERS = 16
# The listener's handshake limit is 5 s.
LET_GO_WITHIN_S = 8.0


class Lane:
    """One Link call of a hostile peer."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call = channel.stream_stream(
            "/meshnet.v1.PeerLink/Link",
            request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
            response_deserializer=link_pb2.LinkMessage.FromString,
        )()

    async def say(self, *messages: link_pb2.LinkMessage | bytes) -> None:
        for message in messages:
            await self._call.write(message)

    async def hear(self) -> link_pb2.LinkMessage:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await self._call.read()

    async def refusal(self) -> grpc.StatusCode:
        """The status that the call ends with; what comes before is dropped."""
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                [message async for message in self._call]
        return ended.value.code()


async def both_lanes(channel: grpc.aio.Channel) -> tuple[Lane, Lane]:
    """Both lanes of a peer that a session names, greeted: for decoding, and for prompts."""
    decode, bulk = Lane(channel), Lane(channel)
    await decode.say(hello())
    await bulk.say(hello(link_pb2.Hello.LANE_BULK))
    await decode.hear()
    await bulk.hear()
    return decode, bulk


async def open_for_peer(running: NativeRoute, peer: PeerCertificate) -> None:
    """Open the session on the second stage, with the peer in the first stage's place."""
    spec = running.direct_spec(terms(), 1)
    for edge in spec.edges:
        if edge.carrier == session_pb2.EdgeSpec.CARRIER_DIRECT:
            edge.peer_fingerprint = peer.fingerprint
            edge.dial = False
    reply = await running.route.workers[1].stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec))
    assert reply.accepted, reply.message


@pytest.fixture
def peer() -> PeerCertificate:
    return PeerCertificate()


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[NativeRoute]:
    async with native_route(tmp_path, [3]) as route:
        yield route


async def bystander_generates(running: NativeRoute) -> int:
    """A session of others, from its opening to its last token."""
    gateway = await running.open_direct(terms(key=BYSTANDER))
    return len((await gateway.generate()).tokens)


def listener(running: NativeRoute) -> str:
    return str(running.programs[1].ready["link_address"])


async def test_an_unlisted_certificate_is_refused(running: NativeRoute, peer: PeerCertificate) -> None:
    async with dialled(listener(running), peer) as channel:
        lane = Lane(channel)
        await lane.say(hello())
        code = await lane.refusal()
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert await bystander_generates(running) > 20


async def test_a_listed_certificate_is_welcome(running: NativeRoute, peer: PeerCertificate) -> None:
    """The control of the test above: the same peer, named by a session, is answered; also where it came first."""
    async with dialled(listener(running), peer) as channel:
        decode, bulk = Lane(channel), Lane(channel)
        await decode.say(hello())
        await bulk.say(hello(link_pb2.Hello.LANE_BULK))
        await open_for_peer(running, peer)
        assert (await decode.hear()).hello.lane == link_pb2.Hello.LANE_DECODE
        assert (await bulk.hear()).hello.lane == link_pb2.Hello.LANE_BULK
        await bulk.say(link_pb2.LinkMessage(frame=write_frame(CHUNK)))
        message = await decode.hear()
    # The ring's token first, and with it the acknowledgement of the rows.
    assert message.frame.token_ids
    (item,) = message.more
    assert (item.edge.from_stage, item.edge.to_stage, item.edge.ack.seq) == (0, 1, 0)


async def test_what_a_peer_sends_together_is_taken_in_order(running: NativeRoute, peer: PeerCertificate) -> None:
    strays = [replace(CHUNK, session=session) for session in (b"no such session!", b"nor is this one!")]
    await open_for_peer(running, peer)
    async with dialled(listener(running), peer) as channel:
        decode, bulk = await both_lanes(channel)
        more = [link_pb2.LinkItem(frame=write_frame(frame)) for frame in (CHUNK, strays[1])]
        await bulk.say(link_pb2.LinkMessage(frame=write_frame(strays[0]), more=more))
        answers = []
        while len(answers) < 4:  # two farewells, the token, the acknowledgement
            message = await decode.hear()
            answers += [message, *message.more]
    gone = [answer.edge.session for answer in answers if answer.edge.HasField("gone")]
    assert gone == [frame.session for frame in strays]
    assert [answer.frame.position for answer in answers if answer.HasField("frame")] == [CHUNK.rows]


async def test_a_peer_without_a_certificate_does_not_get_through_the_handshake(running: NativeRoute) -> None:
    async with grpc.aio.insecure_channel(listener(running)) as channel:
        code = await Lane(channel).refusal()
    assert code is grpc.StatusCode.UNAVAILABLE
    assert await bystander_generates(running) > 20


async def test_a_stranger_that_only_connects_is_let_go(running: NativeRoute) -> None:
    """Each holds a descriptor; gRPC by itself would keep them for two minutes."""
    host, port = listener(running).rsplit(":", 1)
    connections = [await asyncio.open_connection(host, int(port)) for _ in range(STRANGERS)]
    connections[0][1].write(b"\x16\x03\x01")  # a hello that never goes on
    async with asyncio.timeout(LET_GO_WITHIN_S):
        for reader, _ in connections:
            while await reader.read(4096):
                pass
    for _, writer in connections:
        writer.close()
    assert await bystander_generates(running) > 20


async def test_a_listener_with_another_certificate_is_not_spoken_to(
    running: NativeRoute, peer: PeerCertificate
) -> None:
    """The head dials the right address, where another certificate than the pinned one is shown."""
    spec = running.direct_spec(terms(), 0)
    for edge in spec.edges:
        if edge.carrier == session_pb2.EdgeSpec.CARRIER_DIRECT:
            edge.peer_fingerprint = peer.fingerprint
    reply = await running.route.workers[0].stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec))
    assert reply.accepted
    failure = await PlainGateway(running.route, terms()).until_failure()
    assert (failure.code, failure.stage) == (FailureCode.STAGE_LOST, 1)
    assert await bystander_generates(running) > 20


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([link_pb2.LinkMessage(frame=write_frame(CHUNK))], grpc.StatusCode.INVALID_ARGUMENT),
        ([hello(), hello()], grpc.StatusCode.INVALID_ARGUMENT),
        ([hello(), link_pb2.LinkMessage()], grpc.StatusCode.INVALID_ARGUMENT),
        ([hello(wire_version_min=2, wire_version_max=3)], grpc.StatusCode.FAILED_PRECONDITION),
        ([hello(connection=b"short")], grpc.StatusCode.FAILED_PRECONDITION),
        ([hello(lane=0)], grpc.StatusCode.FAILED_PRECONDITION),
        ([hello(), link_pb2.LinkMessage(edge=AN_ACK, more=[link_pb2.LinkItem()])], grpc.StatusCode.INVALID_ARGUMENT),
        ([hello(), link_pb2.LinkMessage(edge=AN_ACK, more=[AN_ITEM] * 257)], grpc.StatusCode.INVALID_ARGUMENT),
        ([hello(), link_pb2.LinkMessage(more=[AN_ITEM])], grpc.StatusCode.INVALID_ARGUMENT),
        ([link_pb2.LinkMessage(hello=hello().hello, more=[AN_ITEM])], grpc.StatusCode.INVALID_ARGUMENT),
        ([hello(), b"\xff" * 100], grpc.StatusCode.INVALID_ARGUMENT),
        ([hello(), b"\0" * (600 * 1024)], grpc.StatusCode.RESOURCE_EXHAUSTED),
        (
            [hello(), link_pb2.LinkMessage(frame=write_frame(replace(CHUNK, session=b"short")))],
            grpc.StatusCode.PERMISSION_DENIED,
        ),
        (
            [hello(), link_pb2.LinkMessage(frame=write_frame(replace(CHUNK, from_stage=127)))],
            grpc.StatusCode.PERMISSION_DENIED,
        ),
        (
            [hello(), link_pb2.LinkMessage(frame=write_frame(replace(CHUNK, session=BYSTANDER.session)))],
            grpc.StatusCode.PERMISSION_DENIED,
        ),
    ],
    ids=[
        "no_hello",
        "hello_twice",
        "no_body",
        "no_body_in_more",
        "too_many",
        "more_without_a_body",
        "more_with_hello",
        "other_version",
        "no_connection",
        "no_lane",
        "garbage",
        "oversized",
        "no_session",
        "as_the_gateway",
        "foreign_session",
    ],
)
async def test_a_listed_peer_that_breaks_the_rules_is_cut_off(
    running: NativeRoute, peer: PeerCertificate, messages: list[link_pb2.LinkMessage | bytes], code: grpc.StatusCode
) -> None:
    await open_for_peer(running, peer)
    others = await running.open_direct(terms(key=BYSTANDER))
    async with dialled(listener(running), peer) as channel:
        lane = Lane(channel)
        await lane.say(*messages)
        assert await lane.refusal() is code
    assert len((await others.generate()).tokens) > 20


async def test_a_stray_frame_is_answered_and_the_link_stays(running: NativeRoute, peer: PeerCertificate) -> None:
    await open_for_peer(running, peer)
    async with dialled(listener(running), peer) as channel:
        decode, bulk = await both_lanes(channel)
        for session in (b"no such session!", b"nor is this one!"):
            await bulk.say(link_pb2.LinkMessage(frame=write_frame(replace(CHUNK, session=session))))
            gone = (await decode.hear()).edge
            assert (gone.session, gone.gone.reason) == (session, FailureCode.UNKNOWN_SESSION)
        await bulk.say(link_pb2.LinkMessage(frame=write_frame(CHUNK)))
        assert (await decode.hear()).frame.token_ids


@pytest.mark.parametrize("killed", [0, 1, 2])
async def test_a_killed_stage_is_told_at_once(tmp_path: Path, killed: int) -> None:
    async with native_route(tmp_path, [2, 5], step_us=200) as running:
        given = terms(prompt=(65,) * 12, max_tokens=2000)
        gateway = await running.open_direct(given)
        await gateway.send_prompt()
        while len(gateway.answer.tokens) < 5:
            await gateway.take(await running.route.receive())
        running.programs[killed].process.kill()
        started_s = time.monotonic()
        failure = await gateway.until_failure()
        elapsed_s = time.monotonic() - started_s
        await until_free(*(worker for stage, worker in enumerate(running.route.workers) if stage != killed))
    print(json.dumps({"killed": killed, "told_after_s": round(elapsed_s, 3)}))
    assert (failure.code, failure.stage) == (FailureCode.STAGE_LOST, killed)
    assert elapsed_s < KILLED_WITHIN_S


async def test_a_tail_that_the_gateway_cannot_hear_says_farewell_over_the_link(tmp_path: Path) -> None:
    given = terms(gateway_grace_ms=100)
    async with native_route(tmp_path, [3], keep=not_from_the_tail_to_the_gateway) as running:
        gateway = await running.open_direct(given)
        await gateway.send_prompt()
        started_s = time.monotonic()
        failure = await gateway.until_failure()
        elapsed_s = time.monotonic() - started_s
        await until_free(*running.route.workers)
    print(json.dumps({"told_after_s": round(elapsed_s, 3)}))
    assert (failure.code, failure.stage) == (FailureCode.STAGE_LOST, 1)
    assert gateway.answer.tokens == []
    assert elapsed_s < given.step_deadline_ms / 1000  # nobody had to wait for a deadline of the route


async def test_a_peer_that_comes_back_is_dialled_again(tmp_path: Path) -> None:
    """A worker that ended lets the link break; the next session, with the next worker's certificate, dials afresh."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with native_route(tmp_path / "a", [3]) as first, native_route(tmp_path / "b", [3]) as second:
        await (await first.open_direct(terms())).generate()
        mixed = NativeRoute(first.route, [first.programs[0], second.programs[1]])
        first.programs[1].process.kill()
        spec = mixed.direct_spec(terms(key=BYSTANDER), 0)
        reply = await first.route.workers[0].stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec))
        assert reply.accepted
        spec = mixed.direct_spec(terms(key=BYSTANDER), 1)
        reply = await second.route.workers[1].stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec))
        assert reply.accepted
        gateway = PlainGateway(first.route, terms(key=BYSTANDER))
        await gateway.send_prompt()
        async with asyncio.timeout(CALL_TIMEOUT_S):
            token = await second.route.receive()
            while token.key != BYSTANDER or not hasattr(token.body, "token_id"):
                token = await second.route.receive()
    assert token.body.index == 0


async def test_a_route_over_the_bridge_needs_no_link(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3], listeners=set()) as running:
        answer = await (await open_all(running.route, terms())).generate()
    assert len(answer.tokens) > 20
