"""Native workers generate what the unsplit model says, however they are cut and whatever carries their edges."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from meshnet.frame import parse_frame
from meshnet.ids import SessionKey
from meshnet.sampling import SamplingTerms
from tests.integration.native.native_routes import NativeRoute, native_route, until_free
from tests.simulators.bridged_route import LostTokens
from tests.simulators.fake_shards import N_LAYERS, WIDTH, open_all, terms
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.route_terms import RouteTerms
from tests.vectors.engine_cases import generate

pytestmark = pytest.mark.native

SAMPLED = SamplingTerms(temperature=1.0, top_p=0.95, seed=7)
CUTS = [[], [3], [2, 4], [1, 2, 3, 4, 5]]


def unsplit(sampling: SamplingTerms, max_tokens: int = 40) -> list[int]:
    return generate(N_LAYERS, WIDTH, sampling, max_tokens)


@pytest.mark.parametrize("cuts", [[2], [2, 4], [1, 2, 3, 4, 5]], ids=str)
@pytest.mark.parametrize("dialler", [min, max], ids=["earlier_dials", "later_dials"])
async def test_direct_route_over_tls_equals_unsplit(
    tmp_path: Path, cuts: list[int], dialler: Callable[[int, int], int]
) -> None:
    async with native_route(tmp_path, cuts) as running:
        answer = await (await running.open_direct(terms(sampling=SAMPLED), dialler)).generate()
        second = terms(key=SessionKey(b"another session!", 1))
        again = await (await running.open_direct(second, dialler)).generate()
        bridged = len(running.route.frames)
    assert answer.token_ids == unsplit(SAMPLED)
    assert again.token_ids == unsplit(SamplingTerms())
    assert bridged == 0
    print(json.dumps({"stages": len(cuts) + 1, "tokens": len(answer.tokens) + len(again.tokens), "bridged": bridged}))


@pytest.mark.parametrize("listener", [0, 1])
async def test_only_one_end_listens(tmp_path: Path, listener: int) -> None:
    async with native_route(tmp_path, [3], listeners={listener}) as running:
        addresses = [program.ready["link_address"] for program in running.programs]
        answer = await (await running.open_direct(terms(), lambda _from, _to: 1 - listener)).generate()
    assert addresses[1 - listener] == ""
    assert answer.token_ids == unsplit(SamplingTerms())


@pytest.mark.parametrize("chunk_rows", [1, 3, 128])
async def test_chunks_of_any_size_give_the_same(tmp_path: Path, chunk_rows: int) -> None:
    async with native_route(tmp_path, [2, 4]) as running:
        answer = await (await running.open_direct(terms(chunk_rows=chunk_rows))).generate()
    assert answer.token_ids == unsplit(SamplingTerms())
    assert [step.done for step in answer.progress] == sorted({*range(chunk_rows, len(terms().prompt), chunk_rows), 12})


@pytest.mark.parametrize("direct", [False, True], ids=["bridged", "direct"])
async def test_large_chunks_travel_in_parts(tmp_path: Path, direct: bool) -> None:
    given = terms(prompt=tuple(range(70)), max_tokens=3)
    async with native_route(tmp_path, [3], width=2048) as running:
        gateway = await (running.open_direct(given) if direct else open_all(running.route, given))
        answer = await gateway.generate()
        parts = [message.frame for message in running.route.frames if message.frame.HasField("fragment")]
    assert len(answer.tokens) == 3
    assert len(parts) == (0 if direct else 2)
    assert all(part.ByteSize() < 512 * 1024 for part in parts)
    assert all(parse_frame(part.SerializeToString()).rows == 70 for part in parts)


async def test_residence_and_logprobs_come_along(tmp_path: Path) -> None:
    sampling = replace(SAMPLED, logprobs=True, top_logprobs=3)
    async with native_route(tmp_path, [2, 4]) as running:
        answer = await (await running.open_direct(terms(sampling=sampling, max_tokens=5))).generate()
    assert [[entry.stage for entry in event.residence] for event in answer.tokens] == [[0, 1, 2]] * 5
    for event in answer.tokens:
        assert event.logprob is not None
        assert event.top_logprobs[0].logprob >= event.logprob


@pytest.mark.parametrize("direct", [False, True], ids=["bridged", "direct"])
async def test_eight_sessions_at_once_do_not_mix(tmp_path: Path, direct: bool) -> None:
    given = [
        # Exact: each prompt takes one step.
        terms(key=SessionKey(bytes([number]) * 16, 1), sampling=replace(SAMPLED, seed=number), is_exact=True)
        for number in range(8)
    ]
    async with native_route(tmp_path, [3]) as running:
        gateways = {one.key: await _open(running, one, direct) for one in given}
        for gateway in gateways.values():
            await gateway.send_prompt()
        while not all(gateway.is_finished for gateway in gateways.values()):
            message = await running.route.receive()
            await gateways[message.key].take(message)
        status = await running.route.workers[1].status()
        answers = [gateways[one.key].answer.token_ids for one in given]
    assert answers == [unsplit(one.sampling) for one in given]
    assert len({tuple(answer) for answer in answers}) == 8
    assert status.steps < status.rows - 8 * 11  # some steps held rows of several sessions


async def _open(running: NativeRoute, given: RouteTerms, direct: bool) -> PlainGateway:
    return await (running.open_direct(given) if direct else open_all(running.route, given))


async def test_a_gateway_that_comes_back_gets_what_it_missed(tmp_path: Path) -> None:
    lost = LostTokens(5)
    given = terms(token_window=5, gateway_grace_ms=5_000)
    async with native_route(tmp_path, [3], keep=lost) as running:
        gateway = await running.open_direct(given)
        await gateway.send_prompt()
        async with asyncio.timeout(10):
            await lost.wait()
        await running.route.reconnect(1)
        answer = await gateway.generate()
    assert answer.token_ids == unsplit(SamplingTerms())


async def test_close_frees_every_stage(tmp_path: Path) -> None:
    async with native_route(tmp_path, [3]) as running:
        gateway = await running.open_direct(terms())
        assert [(await worker.status()).kv_cells_reserved for worker in running.route.workers] == [52, 52]
        await gateway.generate()
        await gateway.close()
        await gateway.close()
        await until_free(*running.route.workers)
        replies = await running.route.open(terms())
    assert [reply.code for reply in replies] == ["old_epoch"] * 2
