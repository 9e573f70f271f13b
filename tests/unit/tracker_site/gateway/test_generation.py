"""A generation's whole life, with real arithmetic behind the route's port and every way to end."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.errors import LedgerError, MeshnetError, RouteError
from meshnet.openai.errors import RequestError
from meshnet.openai.events import Failed, Finished, TelemetryUpdate, TextDelta
from meshnet.openai.telemetry import Phase
from tests.simulators.fake_route import Script, StageLostError
from tests.unit.tracker_site.gateway.stand_ins import ALICE, MODEL, World, chat, completion, last_of, phases_of, text_of
from tracker_site.gateway.limits import Limits
from tracker_site.gateway.ports import Caller
from tracker_site.gateway.settlement import Ending

PROMPT_TOKENS = 1 + 1 + len("hello") + 1  # <s><|user|>hello<|assistant|>


def letters(text: str) -> list[int]:
    return list(text.encode())


async def test_an_answer_is_delivered_billed_and_recorded() -> None:
    world = World()
    events = await world.run(chat(max_tokens=20))
    last = last_of(events)
    assert isinstance(last, Finished)
    assert (last.reason, last.usage.prompt_tokens, last.usage.completion_tokens) == ("length", PROMPT_TOKENS, 20)
    assert len(text_of(events)) == 20
    assert world.ledger.settled == [(PROMPT_TOKENS + 200, [(1, 104), (2, 104)])]
    (record,) = world.records.stored
    assert (record.ending, record.completion_tokens, record.charge_micros) == (Ending.FINISHED, 20, PROMPT_TOKENS + 200)
    assert [stage.node_name for stage in record.stages] == ["node-0", "node-1"]
    world.assert_clean()


async def test_equal_requests_get_equal_answers_and_seeds_are_drawn_when_missing() -> None:
    world = World()
    first = text_of(await world.run(chat(max_tokens=30, temperature=1, seed=5)))
    assert first == text_of(await world.run(chat(max_tokens=30, temperature=1, seed=5)))
    await world.run(chat(max_tokens=1))
    await world.run(chat(max_tokens=1))
    seeds = [route.request.sampling.seed for route in world.routes.opened]
    assert seeds[:2] == [5, 5]
    assert len(set(seeds[2:])) == 2


async def test_phases_are_shown_in_order_before_any_token() -> None:
    world = World(Script(step_s=0.02, open_gate=asyncio.Event()))
    generation = await world.start(chat(max_tokens=5))
    events = []
    async for event in generation.events():
        events.append(event)
        if isinstance(event, TelemetryUpdate) and event.telemetry.phase is Phase.ROUTING:
            world.routes.script.open_now()
    shown = phases_of(events)
    assert shown[-4:] == ["routing", "prefill", "decode", "done"]
    first_text = next(index for index, event in enumerate(events) if isinstance(event, TextDelta))
    assert any(isinstance(event, TelemetryUpdate) and event.telemetry.stages for event in events[:first_text])


async def test_telemetry_comes_without_tokens_too() -> None:
    world = World(Script(stall_at=0), limits=Limits(prefill_stall_s=1.2))
    events = await world.run(chat())
    assert sum(isinstance(event, TelemetryUpdate) for event in events) >= 4
    assert last_of(events).telemetry.failure is not None


async def test_a_stop_string_ends_the_route_and_overshoot_is_not_billed() -> None:
    world = World(Script(token_ids=letters("one two three four ")))
    events = await world.run(chat(max_tokens=100, stop=["three", "zzz"]))
    last = last_of(events)
    assert isinstance(last, Finished)
    assert (text_of(events), last.reason, last.usage.completion_tokens) == ("one two ", "stop", len("one two three"))
    assert world.ledger.settled[0][0] == PROMPT_TOKENS + 10 * len("one two three")
    world.assert_clean()


async def test_the_end_token_is_counted_and_has_no_text() -> None:
    events = await World(Script(token_ids=[*letters("hi"), 257])).run(chat())
    last = last_of(events)
    assert isinstance(last, Finished)
    assert (text_of(events), last.reason, last.usage.completion_tokens) == ("hi", "stop", 3)


async def test_text_that_only_might_be_a_stop_string_comes_at_the_end() -> None:
    events = await World(Script(token_ids=letters("abcab"))).run(chat(max_tokens=5, stop=["abx"]))
    assert text_of(events) == "abcab"


async def test_a_long_stop_prefix_does_not_starve_the_window() -> None:
    events = await World(Script(token_ids=letters("a" * 100 + "b"))).run(chat(max_tokens=101, stop=["a" * 100 + "c"]))
    assert text_of(events) == "a" * 100 + "b"


async def test_logprobs_arrive_with_their_tokens() -> None:
    events = await World().run(chat(max_tokens=6, logprobs=True, top_logprobs=2))
    tokens = [placed for event in events if isinstance(event, TextDelta) for placed in event.tokens]
    assert [placed.text_offset for placed in tokens] == list(range(6))
    assert all(placed.token.logprob is not None and len(placed.token.alternatives) == 2 for placed in tokens)


async def test_a_lost_stage_fails_with_its_number_and_bills_delivered_tokens_only() -> None:
    world = World(Script(token_ids=letters("abcdefgh"), fail_at=5, failure=StageLostError(1)))
    events = await world.run(chat(max_tokens=50))
    last = last_of(events)
    assert isinstance(last, Failed)
    assert (last.error.code, last.telemetry.phase.value, text_of(events)) == ("stage_lost", "failed", "abcde")
    assert last.telemetry.failure is not None
    assert last.telemetry.failure.stage == 1
    assert world.ledger.settled[0][0] == 5 * 10
    assert world.records.stored[0].ending is Ending.FAILED
    world.assert_clean()


async def test_no_route_costs_nothing() -> None:
    world = World(Script(refuse=RouteError("no_route", "No route", "No live node serves layers 0-3.")))
    last = last_of(await world.run(chat()))
    assert isinstance(last, Failed)
    assert last.error.code == "no_route"
    assert world.ledger.settled == [(0, [])]
    world.assert_clean()


async def test_a_route_that_stalls_is_ended_by_the_deadline_of_its_phase() -> None:
    for stall_at, code in ((0, "prefill_timeout"), (3, "decode_timeout")):
        world = World(Script(stall_at=stall_at), limits=Limits(prefill_stall_s=0.1, decode_stall_s=0.1))
        last = last_of(await world.run(chat()))
        assert isinstance(last, Failed)
        assert last.error.code == code
        world.assert_clean()


async def test_a_generation_has_a_deadline_of_its_own() -> None:
    world = World(Script(step_s=0.02), limits=Limits(generation_s=0.2))
    last = last_of(await world.run(chat(max_tokens=400)))
    assert isinstance(last, Failed)
    assert last.error.code == "generation_timeout"
    world.assert_clean()


async def test_a_route_that_ends_without_a_finish_is_a_failure() -> None:
    world = World(Script(fail_at=2, failure=RouteError("route_ended", "t", "m")))
    last = last_of(await world.run(chat()))
    assert isinstance(last, Failed)
    assert last.error.code == "route_ended"


async def test_a_client_that_leaves_cancels_the_route_and_pays_for_what_it_took() -> None:
    world = World(Script(token_ids=letters("abcdefgh"), step_s=0.005))
    generation = await world.start(chat(max_tokens=400))
    taken = 0
    events = generation.events()
    async for event in events:
        taken += len(event.text) if isinstance(event, TextDelta) else 0
        if taken == 4:
            break
    await events.aclose()
    async with asyncio.timeout(1):
        await world.gateway.settled()
    assert world.routes.opened[0].sent < 100
    # The fourth was handed over, but the client never came back for a fifth.
    assert world.ledger.settled[0][0] == PROMPT_TOKENS + 3 * 10
    assert world.records.stored[0].ending is Ending.CANCELLED
    assert world.records.stored[0].failure is not None
    assert world.records.stored[0].failure.code == "client_disconnected"
    world.assert_clean()


async def test_a_client_that_leaves_during_prefill_pays_for_the_chunks_that_were_computed() -> None:
    model = replace(MODEL, context_length=4096)
    world = World(Script(stall_at=0), model=model)
    generation = await world.start(completion(prompt="x" * 299))
    async for event in generation.events():
        if isinstance(event, TelemetryUpdate) and event.telemetry.prefill_done >= 128:
            done = event.telemetry.prefill_done
            break
    generation.cancel("client_disconnected")
    await world.gateway.settled()
    assert done <= world.ledger.settled[0][0] <= 300
    world.assert_clean()


async def test_a_client_that_does_not_read_holds_up_its_own_route_and_is_let_go() -> None:
    world = World(Script(grace_s=0.2))
    generation = await world.start(chat(max_tokens=400))
    events = generation.events()
    async for event in events:
        if isinstance(event, TextDelta):
            break
    async with asyncio.timeout(5):
        await world.gateway.settled()
    assert world.routes.opened[0].sent <= TOKEN_ACK_WINDOW + 1
    assert world.records.stored[0].failure is not None
    assert world.records.stored[0].failure.code == "client_too_slow"
    rest = [event async for event in events]
    assert isinstance(rest[-1], Failed)
    world.assert_clean()


async def test_too_little_credit_starts_nothing() -> None:
    world = World()
    world.ledger.credit_micros = 5
    with pytest.raises(LedgerError) as caught:
        await world.start(chat())
    assert caught.value.code == "insufficient_credit"
    await world.gateway.settled()
    assert not world.routes.opened
    assert not world.records.stored
    world.assert_clean()


async def test_a_hold_that_comes_too_late_is_released() -> None:
    world = World(limits=Limits(hold_s=0.05))
    world.ledger.gate = asyncio.Event()
    with pytest.raises(LedgerError) as caught:
        await world.start(chat())
    assert caught.value.code == "ledger_timeout"
    world.ledger.gate.set()
    async with asyncio.timeout(5):
        await world.ledger.settlement.wait()
    assert world.ledger.settled == [(0, [])]
    world.assert_clean()


async def test_a_caller_that_gives_up_while_the_hold_is_placed_costs_nothing() -> None:
    world = World()
    world.ledger.gate = asyncio.Event()
    starting = asyncio.create_task(world.start(chat()))
    await world.ledger.placement.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    world.ledger.gate.set()
    await world.gateway.settled()
    assert world.ledger.settled == [(0, [])]
    assert not world.routes.opened
    world.assert_clean()


async def test_a_ledger_that_fails_leaves_the_hold_to_its_sweeper_and_the_answer_stands() -> None:
    world = World()
    world.ledger.settle_error = LedgerError("ledger_unavailable", "t", "m")
    assert isinstance(last_of(await world.run(chat(max_tokens=3))), Finished)
    assert len(world.ledger.open) == 1
    assert not world.gateway.live


async def test_a_stopping_site_ends_and_settles_what_runs() -> None:
    world = World(Script(stall_at=3))
    generation = await world.start(chat())
    events = generation.events()
    await anext(events)
    async with asyncio.timeout(5):
        await world.gateway.stop(timeout_s=2)
    rest = [event async for event in events]
    last = last_of(rest)
    assert isinstance(last, Failed)
    assert last.error.code == "site_stopping"
    assert world.records.stored[0].ending is Ending.CANCELLED
    assert world.routes.is_closed
    with pytest.raises(RequestError) as caught:
        await world.start(chat())
    assert caught.value.code == "site_busy"
    world.assert_clean()


async def test_an_error_that_nobody_foresaw_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    world = World(Script(fail_at=2, failure=ValueError("a prompt's words")))
    last = last_of(await world.run(chat()))
    assert isinstance(last, Failed)
    assert last.error.code == "internal_error"
    assert "failed: ValueError\n" in caplog.text
    assert "route_reader.py" in caplog.text  # where it came from
    assert "a prompt's words" not in caplog.text
    world.assert_clean()


async def test_a_ledger_that_breaks_unexpectedly_refuses_and_frees_the_slot(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.ledger.place_error = RuntimeError("broken words")
    with pytest.raises(MeshnetError) as caught:
        await world.start(chat())
    assert caught.value.code == "internal_error"
    await world.gateway.settled()
    assert "ended with an internal error: RuntimeError\n" in caplog.text
    assert "broken words" not in caplog.text
    assert world.gateway._slots.alive == 0
    world.assert_clean()


async def test_one_user_may_run_so_many_at_once() -> None:
    world = World(Script(stall_at=0), limits=Limits(generations_per_user=2, generations=3))
    running = [await world.start(chat()) for _ in range(2)]
    with pytest.raises(RequestError) as caught:
        await world.start(chat())
    assert (caught.value.status, caught.value.code) == (429, "too_many_generations")
    running.append(await world.gateway.start(Caller(99), chat()))
    with pytest.raises(RequestError) as caught:
        await world.gateway.start(Caller(100), chat())
    assert (caught.value.status, caught.value.code) == (503, "site_busy")
    for generation in running:
        generation.cancel("cancelled")
    await world.gateway.settled()
    (await world.gateway.start(ALICE, chat())).cancel("cancelled")
    await world.gateway.settled()
    world.assert_clean()


async def test_whoever_has_its_answer_may_ask_again_while_the_last_one_is_settled() -> None:
    world = World(limits=Limits(generations_per_user=1, generations=3))
    world.ledger.settle_gate = asyncio.Event()
    for _ in range(2):
        events = [event async for event in (await world.start(chat(max_tokens=3))).events()]
        assert isinstance(last_of(events), Finished)
    assert len(world.gateway.live) == 2
    with pytest.raises(RequestError) as caught:  # a ledger that does not settle holds its user back
        await world.start(chat())
    assert caught.value.code == "too_many_generations"
    world.ledger.settle_gate.set()
    assert await world.gateway.settled(5)
    assert len(world.ledger.settled) == 2
    assert world.gateway._slots.alive == 0
    world.assert_clean()


@pytest.mark.parametrize(
    ("changes", "status", "code", "param"),
    [
        ({"model": "other"}, 404, "model_not_found", "model"),
        ({"max_tokens": 600}, 400, "context_length_exceeded", "max_tokens"),
        ({"messages": [{"role": "user", "content": "x" * 600}]}, 400, "context_length_exceeded", "messages"),
        ({"logit_bias": {"260": 1}}, 400, "bad_token_id", "logit_bias"),
    ],
)
async def test_what_does_not_fit_the_model(changes: dict[str, object], status: int, code: str, param: str) -> None:
    world = World()
    with pytest.raises(RequestError) as caught:
        await world.start(chat(**changes))
    assert (caught.value.status, caught.value.code, caught.value.param) == (status, code, param)
    assert world.gateway._slots.alive == 0
    world.assert_clean()


async def test_prompts_of_token_ids_are_checked_and_taken_as_they_are() -> None:
    world = World()
    with pytest.raises(RequestError) as caught:
        await world.start(completion(prompt=[1, 260]))
    assert caught.value.code == "bad_token_id"
    await world.run(completion(prompt=[258, 65, 259]))
    assert world.routes.opened[0].request.prompt_tokens == (258, 65, 259)
    assert world.routes.opened[0].request.max_tokens == 16


async def test_a_prompt_that_is_too_large_is_told_so() -> None:
    with pytest.raises(MeshnetError) as caught:
        await World().start(chat(messages=[{"role": "user", "content": "x" * 3_000_000}]))
    assert caught.value.code == "prompt_too_large"


async def test_warming_up_loads_the_vocabulary_and_connects() -> None:
    world = World()
    await world.gateway.warm_up()
    assert world.routes.is_warm
    assert isinstance(last_of(await world.run(chat(max_tokens=2))), Finished)


async def test_warming_up_leaves_failures_to_the_requests(caplog: pytest.LogCaptureFixture) -> None:
    refuse = RouteError("relay_unavailable", "Relay unavailable", "The relay cannot be reached.")
    world = World(Script(refuse=refuse), replace(MODEL, architecture="llama", vocabulary_path="nowhere"))
    await world.gateway.warm_up()
    told = [record.getMessage() for record in caplog.records if record.name.startswith("tracker_site")]
    assert len(told) == 2
    assert "relay_unavailable" in told[1]
