"""Routes whose rows are packed between stages: what they compute, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from meshnet.failure_codes import FailureCode
from meshnet.frame import Codec, Phase, Tensor, seam_codec
from meshnet.sampling import SamplingTerms, sample
from meshnet.v1 import frame_pb2, session_pb2, worker_pb2
from tests.integration.workers.worker_kinds import Routes
from tests.integration.workers.wrong_frames import SEAM_FRAME
from tests.simulators import fake_shards
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.fake_engine import FakeSequence, FakeShard, logits_of, pack_rows, unpack_rows
from tests.simulators.fake_shards import N_LAYERS, WIDTH, open_all
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import RouteTerms, spec_for

WIDE = 2 * WIDTH  # a block of q8_0
CUTS = [3, 5]
LOSSY = (Codec.BF16, Codec.Q8_0)


def terms(**changes: object) -> RouteTerms:
    """The terms of a generation that no token ends."""
    return fake_shards.terms(**({"end_tokens": ()} | changes))


def expected_tokens(codec: Codec, given: RouteTerms) -> list[int]:
    """What three stages compute whose rows are packed and unpacked between them."""
    bounds = pairwise([0, *CUTS, N_LAYERS])
    stages = [FakeSequence(FakeShard(N_LAYERS, WIDE, begin, end)) for begin, end in bounds]
    tokens: list[int] = []
    taken: tuple[int, ...] = given.prompt
    while len(tokens) < given.max_tokens:
        rows = stages[0].step_tokens(taken)
        for stage in stages[1:]:
            crossed = seam_codec.unpack_rows(codec, seam_codec.pack_rows(codec, pack_rows(rows)))
            rows = stage.step_rows(unpack_rows(crossed, WIDE))
        tokens.append(sample(logits_of(rows[-1]), SamplingTerms(), {}, len(given.prompt) + len(tokens)))
        taken = (tokens[-1],)
    return tokens


@pytest.mark.parametrize("codec", Codec)
async def test_a_packed_route_computes_what_its_codec_leaves(routes: Routes, codec: Codec) -> None:
    given = terms(codec=codec, chunk_rows=5)
    async with routes(CUTS, width=WIDE) as route:
        answer = await (await open_all(route, given)).generate()
        seams = [one.frame for one in route.frames if one.frame.from_stage + 1 == one.frame.to_stage]
    assert answer.token_ids == expected_tokens(codec, given)
    assert (answer.token_ids == expected_tokens(Codec.RAW, given)) == (codec is Codec.RAW)
    assert len(seams) > 20
    assert {frame.tensors[0].codec for frame in seams} == {codec}
    assert all(len(one.tensors[0].data) == codec.packed_bytes(one.rows * WIDE) for one in seams)


@pytest.mark.parametrize("codec", LOSSY)
async def test_sessions_of_several_codecs_share_their_workers(routes: Routes, codec: Codec) -> None:
    packed, raw = terms(codec=codec), terms(key=replace(terms().key, session=b"another session!"))
    async with routes(CUTS, width=WIDE) as route:
        gateways = {one.key: await open_all(route, one) for one in (packed, raw)}
        for gateway in gateways.values():
            await gateway.send_prompt()
        while not all(gateway.is_finished for gateway in gateways.values()):
            message = await route.receive()
            await gateways[message.key].take(message)
    assert gateways[packed.key].answer.token_ids == expected_tokens(codec, packed)
    assert gateways[raw.key].answer.token_ids == expected_tokens(Codec.RAW, raw)


def tensor(codec: Codec) -> Tensor:
    """Twelve rows of ones."""
    data = seam_codec.pack_rows(codec, pack_rows([(1,) * WIDE] * 12))
    return replace(SEAM_FRAME.tensors[0], shape=(12, WIDE), codec=codec, data=data)


def poisoned(codec: Codec) -> Tensor:
    """As `tensor`, its first element's exponent full: an element of bf16 or f32, the scale of a q8_0 block."""
    good = tensor(codec)
    high_byte = {Codec.RAW: 3, Codec.BF16: 1, Codec.Q8_0: 1}[codec]
    data = bytearray(good.data)
    data[high_byte - 1 : high_byte + 1] = b"\xff\x7f"
    return replace(good, data=bytes(data))


def truncated(codec: Codec) -> Tensor:
    """As `tensor`, a byte short."""
    good = tensor(codec)
    return replace(good, data=good.data[:-1])


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda codec: tensor(Codec(codec % len(Codec) + 1)), FailureCode.WRONG_DTYPE),
        (truncated, FailureCode.WRONG_SIZE),
        (poisoned, FailureCode.NOT_FINITE),
    ],
    ids=["another_codec", "truncated", "not_finite"],
)
async def test_rows_that_are_not_what_was_agreed_fail_their_session_only(
    routes: Routes, codec: Codec, spoil: Callable[[Codec], Tensor], code: FailureCode
) -> None:
    given, bystander = terms(codec=codec), terms(key=replace(terms().key, session=b"another session!"))
    async with routes([3], width=WIDE) as route:
        await open_all(route, given)
        await open_all(route, bystander)
        await route.send_frame(replace(SEAM_FRAME, tensors=(spoil(codec),)))
        failure = await PlainGateway(route, given).until_failure()
        answer = await PlainGateway(route, bystander).generate()
    assert (failure.code, failure.stage) == (code, 0)
    assert len(answer.tokens) > 20


async def refusal(route: BridgedRoute, stage: int, spec: session_pb2.SessionSpec) -> str:
    """The code that a stage refuses a session with; empty where it takes it."""
    reply = await route.workers[stage].stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec))
    return "" if reply.accepted else str(reply.code)


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("codec", LOSSY)
async def test_an_exact_route_is_refused_a_codec_at_both_ends(routes: Routes, codec: Codec, stage: int) -> None:
    async with routes([3], width=WIDE) as route:
        spec = spec_for(terms(codec=codec), stage, route.contracts)
        spec.exact = True
        exact = await refusal(route, stage, spec)
        spec.exact = False
        lossy = await refusal(route, stage, spec)
    assert (exact, lossy) == (FailureCode.CONTRACT_MISMATCH, "")


@pytest.mark.parametrize("stage", [0, 1])
async def test_rows_of_half_a_block_are_no_q8_0(routes: Routes, stage: int) -> None:
    async with routes([3], width=WIDTH) as route:
        codes = [
            await refusal(route, stage, spec_for(terms(codec=codec), stage, route.contracts))
            for codec in (Codec.Q8_0, Codec.BF16)
        ]
        listed = list(route.contracts[stage].codecs)
    assert codes == [FailureCode.CONTRACT_MISMATCH, ""]
    assert listed == [frame_pb2.CODEC_BF16]


@pytest.mark.parametrize(
    ("edge", "number", "code"),
    [
        ((0, 1), 17, FailureCode.CONTRACT_MISMATCH),
        ((127, 0), Codec.BF16, FailureCode.MALFORMED),
        ((1, 0), Codec.Q8_0, FailureCode.MALFORMED),
        ((0, 1), Codec.BF16, ""),
    ],
)
async def test_a_codec_is_one_that_is_known_and_of_a_seam(
    routes: Routes, edge: tuple[int, int], number: int, code: str
) -> None:
    async with routes([3], width=WIDE) as route:
        spec = spec_for(terms(), 0, route.contracts)
        for one in spec.edges:
            if (one.from_stage, one.to_stage) == edge:
                # Enums are open on the wire: a newer site may name a codec that this worker does not know.
                one.MergeFromString(bytes([9 << 3, number]))
        found = await refusal(route, 0, spec)
    assert found == code


async def test_a_chunk_of_many_messages_crosses_packed(routes: Routes) -> None:
    width, rows = 8192, 128
    prompt = tuple(number % 256 for number in range(rows))
    # A simulated worker packs a million numbers in Python: a busy machine takes seconds for it.
    given = terms(codec=Codec.BF16, prompt=prompt, max_tokens=2, chunk_rows=rows, step_deadline_ms=30_000)
    async with routes([4], width=width) as route:
        answer = await (await open_all(route, given)).generate()
        parts = [one.frame for one in route.frames if one.frame.phase == Phase.PREFILL and one.frame.from_stage == 0]
    assert len(answer.tokens) >= 1
    assert [part.fragment.index for part in parts] == list(range(len(parts)))
    assert len(parts) > 1
    assert sum(len(part.tensors[0].data) for part in parts) == Codec.BF16.packed_bytes(rows * width)
