"""Workers generate what the unsplit model says, however they are cut."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from meshnet.frame import FinishReason, parse_frame
from meshnet.ids import SessionKey
from meshnet.sampling import SamplingTerms
from tests.integration.native.native_routes import until_free
from tests.integration.simulators.routes_of_workers import SAMPLED
from tests.integration.workers.worker_kinds import Routes
from tests.simulators.fake_engine import END_TOKEN_ID
from tests.simulators.fake_shards import N_LAYERS, WIDTH, open_all, terms
from tests.vectors.engine_cases import generate

CUTS = [[], [3], [1], [2, 4], [1, 2, 3, 4, 5]]


def unsplit(sampling: SamplingTerms, max_tokens: int = 40) -> list[int]:
    return generate(N_LAYERS, WIDTH, sampling, max_tokens)


@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize("sampling", [SamplingTerms(), SAMPLED], ids=["greedy", "sampled"])
async def test_split_equals_unsplit(routes: Routes, cuts: list[int], sampling: SamplingTerms) -> None:
    async with routes(cuts) as route:
        answer = await (await open_all(route, terms(sampling=sampling))).generate()
    assert answer.token_ids == unsplit(sampling)
    assert [event.index for event in answer.tokens] == list(range(len(answer.tokens)))
    assert answer.progress[-1].done == len(terms().prompt)
    print(json.dumps({"stages": len(cuts) + 1, "tokens": len(answer.tokens)}))
    assert len(answer.tokens) > 20


@pytest.mark.parametrize("chunk_rows", [1, 3, 128])
async def test_chunks_of_any_size_give_the_same(routes: Routes, chunk_rows: int) -> None:
    async with routes([2, 4]) as route:
        answer = await (await open_all(route, terms(chunk_rows=chunk_rows))).generate()
    assert answer.token_ids == unsplit(SamplingTerms())
    assert [step.done for step in answer.progress] == sorted({*range(chunk_rows, len(terms().prompt), chunk_rows), 12})


async def test_large_chunks_travel_in_parts(routes: Routes) -> None:
    given = terms(prompt=tuple(range(70)), max_tokens=3)
    async with routes([3], width=2048) as route:
        answer = await (await open_all(route, given)).generate()
        parts = [message.frame for message in route.frames if message.frame.HasField("fragment")]
    assert len(parts) == 2
    assert all(part.ByteSize() < 512 * 1024 for part in parts)
    assert all(parse_frame(part.SerializeToString()).rows == 70 for part in parts)
    assert len(answer.tokens) == 3


async def test_a_second_epoch_goes_on_where_the_first_was(routes: Routes) -> None:
    whole = unsplit(SAMPLED)
    given = terms(key=SessionKey(terms().key.session, 2), committed=tuple(whole[:10]), sampling=SAMPLED)
    async with routes([3]) as route:
        answer = await (await open_all(route, given)).generate()
    assert answer.token_ids == whole[10:]
    assert answer.tokens[0].index == 10


async def test_the_tail_finishes_at_the_contexts_end(routes: Routes) -> None:
    async with routes([3], context_length=20) as route:
        answer = await (await open_all(route, terms())).generate()
    assert len(answer.tokens) == 20 - len(terms().prompt) + 1
    assert answer.tokens[-1].finish is FinishReason.LENGTH


async def test_the_tail_finishes_with_an_end_token(routes: Routes) -> None:
    stopping = terms(sampling=SamplingTerms(logit_bias={END_TOKEN_ID: 100.0}))
    async with routes([3]) as route:
        answer = await (await open_all(route, stopping)).generate()
    assert (answer.token_ids, answer.tokens[0].finish) == ([END_TOKEN_ID], FinishReason.STOP)


async def test_residence_and_logprobs_come_along(routes: Routes) -> None:
    sampling = replace(SAMPLED, logprobs=True, top_logprobs=3)
    async with routes([2, 4]) as route:
        answer = await (await open_all(route, terms(sampling=sampling, max_tokens=5))).generate()
    assert [[entry.stage for entry in event.residence] for event in answer.tokens] == [[0, 1, 2]] * 5
    for event in answer.tokens:
        assert event.logprob is not None
        assert len(event.top_logprobs) == 3
        assert event.top_logprobs[0].logprob >= event.logprob


async def test_eight_sessions_at_once_do_not_mix(routes: Routes) -> None:
    """One gateway at a time reads the route's queue here, so messages are sorted by session first."""
    given = [
        terms(key=SessionKey(bytes([number]) * 16, 1), sampling=replace(SAMPLED, seed=number)) for number in range(8)
    ]
    async with routes([3]) as route:
        gateways = {one.key: await open_all(route, one) for one in given}
        for gateway in gateways.values():
            await gateway.send_prompt()
        while not all(gateway.is_finished for gateway in gateways.values()):
            message = await route.receive()
            await gateways[message.key].take(message)
        answers = [gateways[one.key].answer.token_ids for one in given]
    assert answers == [unsplit(one.sampling) for one in given]
    assert len({tuple(answer) for answer in answers}) == 8


async def test_close_frees_every_stage(routes: Routes) -> None:
    async with routes([3]) as route:
        gateway = await open_all(route, terms())
        assert [(await worker.status()).kv_cells_reserved for worker in route.workers] == [52, 52]
        await gateway.generate()
        await gateway.close()
        await gateway.close()
        await until_free(*route.workers)
        replies = await route.open(terms())
    # A closed attempt is remembered, so that a late OpenSession does not bring it back.
    assert [reply.code for reply in replies] == ["old_epoch"] * 2
