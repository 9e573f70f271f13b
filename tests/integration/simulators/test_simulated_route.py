"""Simulated workers generate what the unsplit model says, however they are cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from meshnet.failure_codes import FailureCode
from meshnet.fake import END_TOKEN_ID
from meshnet.frame import FinishReason, parse_frame
from meshnet.ids import SessionKey
from meshnet.sampling import SamplingTerms
from tests.integration.simulators.routes_of_workers import SAMPLED, running_route
from tests.simulators.fake_shards import N_LAYERS, WIDTH, open_all, terms
from tests.simulators.faults import Faults
from tests.simulators.plain_gateway import PlainGateway
from tests.simulators.worker import SimulatedWorker
from tests.vectors.engine_cases import generate

POLL_S = 0.01
CUTS = [[], [3], [1], [2, 4], [1, 2, 3, 4, 5]]


async def until(condition: Callable[[], bool]) -> None:
    """Poll; the caller has a deadline."""
    while not condition():  # noqa: ASYNC110 - the machine has no event for it
        await asyncio.sleep(POLL_S)


def in_flight_frames(worker: SimulatedWorker) -> int:
    sessions = worker.state.machine.sessions.values()
    return sum(edge.in_flight_frames for session in sessions for edge in session.sending.values())


def unsplit(sampling: SamplingTerms, max_tokens: int = 40) -> list[int]:
    return generate(N_LAYERS, WIDTH, sampling, max_tokens)


@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize("sampling", [SamplingTerms(), SAMPLED], ids=["greedy", "sampled"])
async def test_split_equals_unsplit(tmp_path: Path, cuts: list[int], sampling: SamplingTerms) -> None:
    async with running_route(tmp_path, cuts) as running:
        gateway = await open_all(running.route, terms(sampling=sampling))
        answer = await gateway.generate()
    assert answer.token_ids == unsplit(sampling)
    assert [event.index for event in answer.tokens] == list(range(len(answer.tokens)))
    assert answer.progress[-1].done == len(terms().prompt)
    print(json.dumps({"stages": len(cuts) + 1, "tokens": len(answer.tokens)}))
    assert len(answer.tokens) > 20


async def test_the_control_differs(tmp_path: Path) -> None:
    """Rows that are off by one give another answer: the comparison above can fail."""
    async with running_route(tmp_path, [3], faults={0: Faults(garble_rows=True)}) as running:
        answer = await (await open_all(running.route, terms())).generate()
    assert answer.token_ids != unsplit(SamplingTerms())


@pytest.mark.parametrize("chunk_rows", [1, 3, 128])
async def test_chunks_of_any_size_give_the_same(tmp_path: Path, chunk_rows: int) -> None:
    async with running_route(tmp_path, [2, 4]) as running:
        answer = await (await open_all(running.route, terms(chunk_rows=chunk_rows))).generate()
    assert answer.token_ids == unsplit(SamplingTerms())
    assert [step.done for step in answer.progress] == sorted({*range(chunk_rows, len(terms().prompt), chunk_rows), 12})


async def test_large_chunks_travel_in_parts(tmp_path: Path) -> None:
    prompt = tuple(range(70))
    given = terms(prompt=prompt, max_tokens=3)
    async with running_route(tmp_path, [3], width=2048) as running:
        answer = await (await open_all(running.route, given)).generate()
        parts = [message.frame for message in running.route.frames if message.frame.HasField("fragment")]
    assert len(parts) == 2
    assert max(part.ByteSize() for part in parts) < 512 * 1024
    assert parse_frame(parts[0].SerializeToString()).rows == 70
    assert len(answer.tokens) == 3


async def test_a_second_epoch_goes_on_where_the_first_was(tmp_path: Path) -> None:
    whole = unsplit(SAMPLED)
    committed = tuple(whole[:10])
    given = terms(key=SessionKey(terms().key.session, 2), committed=committed, sampling=SAMPLED)
    async with running_route(tmp_path, [3]) as running:
        answer = await (await open_all(running.route, given)).generate()
    assert answer.token_ids == whole[10:]
    assert answer.tokens[0].index == 10


async def test_the_tail_finishes(tmp_path: Path) -> None:
    async with running_route(tmp_path, [3], context_length=20) as running:
        full = await (await open_all(running.route, terms())).generate()
    async with running_route(tmp_path, [3]) as running:
        stops = await (
            await open_all(running.route, terms(sampling=SamplingTerms(logit_bias={END_TOKEN_ID: 100.0})))
        ).generate()
    assert len(full.tokens) == 20 - len(terms().prompt) + 1
    assert full.tokens[-1].finish is FinishReason.LENGTH
    assert (stops.token_ids, stops.tokens[0].finish) == ([END_TOKEN_ID], FinishReason.STOP)


async def test_logprobs_come_where_they_are_asked_for(tmp_path: Path) -> None:
    sampling = replace(SAMPLED, logprobs=True, top_logprobs=3)
    async with running_route(tmp_path, [3]) as running:
        answer = await (await open_all(running.route, terms(sampling=sampling, max_tokens=5))).generate()
    for event in answer.tokens:
        assert event.logprob is not None
        assert len(event.top_logprobs) == 3
        assert event.top_logprobs[0].logprob >= event.logprob


async def test_residence_names_every_stage(tmp_path: Path) -> None:
    async with running_route(tmp_path, [2, 4]) as running:
        answer = await (await open_all(running.route, terms(max_tokens=3))).generate()
    assert [[entry.stage for entry in event.residence] for event in answer.tokens] == [[0, 1, 2]] * 3


async def test_eight_sessions_at_once_do_not_mix(tmp_path: Path) -> None:
    """One gateway at a time reads the route's queue here, so messages are sorted by session first."""
    keys = [SessionKey(bytes([number]) * 16, 1) for number in range(8)]
    async with running_route(tmp_path, [3]) as running:
        given = [terms(key=key, sampling=replace(SAMPLED, seed=index)) for index, key in enumerate(keys)]
        gateways = {one.key: await open_all(running.route, one) for one in given}
        for gateway in gateways.values():
            await gateway.send_prompt()
        while not all(gateway.is_finished for gateway in gateways.values()):
            message = await running.route.receive()
            await gateways[message.key].take(message)
        answers = [gateways[one.key].answer.token_ids for one in given]
    assert answers == [unsplit(one.sampling) for one in given]
    assert len({tuple(answer) for answer in answers}) == 8


async def test_the_gateways_silence_stops_the_tail_at_the_window(tmp_path: Path) -> None:
    given = terms(gateway_grace_ms=100)
    async with running_route(tmp_path, [3]) as running:
        await open_all(running.route, given)
        silent = PlainGateway(running.route, given, acknowledges=False)
        await silent.send_prompt()
        failure = await silent.until_failure()
        status = await running.route.workers[1].status()
    assert len(silent.answer.tokens) == given.token_window
    assert (failure.code, failure.stage) == (FailureCode.GATEWAY_LOST, 1)
    assert status.kv_cells_reserved == 0


async def test_a_gateway_that_comes_back_gets_what_it_missed(tmp_path: Path) -> None:
    lost: list[object] = []
    all_lost = asyncio.Event()

    def lose_some(message: object) -> bool:
        if all_lost.is_set() or not message.HasField("edge") or not message.edge.HasField("token"):
            return True
        lost.append(message)
        if len(lost) == 5:
            all_lost.set()
        return False

    given = terms(token_window=5, gateway_grace_ms=5_000)
    async with running_route(tmp_path, [3], keep=lose_some) as running:
        gateway = await open_all(running.route, given)
        await gateway.send_prompt()
        async with asyncio.timeout(10):
            await all_lost.wait()
            # An acknowledgement that is lost with the bridge would stall the head: nothing but tokens is sent again.
            await until(lambda: not in_flight_frames(running.workers[0]))
        await running.route.reconnect(1)
        answer = await gateway.generate()
    assert answer.token_ids == unsplit(SamplingTerms())


async def test_close_frees_every_stage(tmp_path: Path) -> None:
    async with running_route(tmp_path, [3]) as running:
        gateway = await open_all(running.route, terms())
        assert [(await w.status()).kv_cells_reserved for w in running.route.workers] == [52, 52]
        await gateway.generate()
        await gateway.close()
        await gateway.close()
        async with asyncio.timeout(10):
            await until(lambda: not any(worker.state.machine.kv_cells_reserved for worker in running.workers))
        replies = await running.route.open(terms())
    # A closed attempt is remembered, so that a late OpenSession does not bring it back.
    assert [reply.code for reply in replies] == [FailureCode.OLD_EPOCH] * 2
