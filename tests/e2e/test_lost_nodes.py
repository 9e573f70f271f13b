"""Nodes that die or freeze in the middle of an answer: the client hears at once who, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.answers import a_chat, a_long_chat
from tests.e2e.conftest import NODES
from tests.e2e.processes import POLL_S, until
from tests.e2e.stack import COMPLETION_MICROS, RunningNode, Stack
from tests.simulators.fake_engine import END_TOKEN_ID
from tracker_site.routes.session.deadlines import RouteDeadlines

pytestmark = [pytest.mark.e2e, pytest.mark.native]

AT_ONCE = 8
LOST_DEADLINE_S = 1.0
STEP_DEADLINE_S = RouteDeadlines().step_min_s  # FakeEngine's steps take microseconds, so the least one holds
FREED_DEADLINE_S = 1.0
ROUTE_DEADLINE_S = 5.0


def kill_worker(node: RunningNode) -> None:
    node.strike_worker(signal.SIGKILL)


def kill_agent(node: RunningNode) -> None:
    os.kill(node.program.pid, signal.SIGKILL)


def stop_worker(node: RunningNode) -> None:
    node.strike_worker(signal.SIGSTOP)


def stop_agent(node: RunningNode) -> None:
    os.kill(node.program.pid, signal.SIGSTOP)


def thaw(stack: Stack, name: str) -> None:
    os.kill(stack.nodes[name].program.pid, signal.SIGCONT)


BLOWS: list[tuple[Callable[[RunningNode], None], float]] = [
    (kill_worker, LOST_DEADLINE_S),
    (kill_agent, LOST_DEADLINE_S),
    (stop_worker, STEP_DEADLINE_S),
]


def bring_back(stack: Stack, name: str) -> None:
    """Wait until a node serves again: by itself, or started anew where its agent is gone."""
    if stack.nodes[name].program.process.poll() is None:
        stack.nodes[name].next_ready()
    else:
        stack.relaunch(name)


def until_a_route(stack: Stack, model: str) -> None:
    """Wait for an answer: the site plans over offers of a moment ago."""
    limit_s = time.monotonic() + ROUTE_DEADLINE_S
    while (answer := stack.client.post(a_chat(model, max_tokens=4))).status_code != 200:
        nodes = {name: stack.nodes[name].program.last_words() for name in NODES[model]}
        assert time.monotonic() < limit_s, f"{answer.status_code} {answer.text}; {nodes}"
        time.sleep(POLL_S)


@pytest.mark.parametrize("model", list(NODES))
@pytest.mark.parametrize("stage", [0, 1], ids=["head", "tail"])
@pytest.mark.parametrize(("blow", "deadline_s"), BLOWS, ids=[blow.__name__ for blow, _ in BLOWS])
def test_a_lost_stage_is_named_in_time_and_leaves_nothing(
    stack: Stack, model: str, stage: int, blow: Callable[[RunningNode], None], deadline_s: float
) -> None:
    lost, other = NODES[model][stage], NODES[model][1 - stage]
    with stack.client.stream(a_long_chat(model)) as stream:
        stream.read_deltas(30)
        assert stack.busy_nodes([other])  # the control: there is something to be freed
        struck_s = time.monotonic()
        blow(stack.nodes[lost])
        stream.read_to_end()
        took_s = time.monotonic() - struck_s
    stack.until_idle([other], FREED_DEADLINE_S)
    freed_s = time.monotonic() - struck_s

    assert stream.error is not None
    assert not stream.is_done
    assert stream.carriers == [model, model]
    print(
        f"{blow.__name__} stage {stage} {model}: {stream.error['code']} stage {stream.error['stage']} "
        f"after {took_s * 1000:.0f} ms, freed after {freed_s * 1000:.0f} ms, {stream.deltas} tokens"
    )
    assert stream.error["stage"] == stage
    assert stream.error["message"]
    assert took_s <= deadline_s

    record = stack.client.record(stream.generation_id)
    assert (record["status"], record["failure"]["stage"]) == ("failed", stage)
    assert record["usage"]["completion_tokens"] == stream.deltas
    assert record["charge_micros"] == stream.deltas * COMPLETION_MICROS
    stack.assert_settled()

    meanwhile = stack.client.post(a_chat(model, max_tokens=4))
    if meanwhile.status_code != 200:
        error = meanwhile.json()["error"]
        # A site that is slow to read its offers asks the node that is gone first, and tells that (ADR 10).
        assert (meanwhile.status_code, error["code"]) in {(503, "no_route"), (503, "stage_lost")}
        assert error["code"] == "no_route" or error["stage"] == stage
        assert error["message"]
    bring_back(stack, lost)
    afterwards = stack.client.post(a_chat(model, max_tokens=4))
    assert afterwards.status_code == 200, afterwards.text
    stack.until_idle()


@pytest.mark.parametrize("model", list(NODES))
def test_a_crowd_that_loses_its_tail_hears_of_it_at_once(stack: Stack, model: str) -> None:
    """All sessions of a stage fail together; one more than a user may have is refused before that."""
    running = threading.Barrier(AT_ONCE + 1, timeout=10)

    def hear(number: int) -> tuple[dict[str, Any] | None, float]:
        with stack.client.stream(a_long_chat(model, f"question {number}")) as stream:
            stream.read_deltas(5)
            running.wait()
            stream.read_to_end()
        return stream.error, time.monotonic()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        hearing = [threads.submit(hear, number) for number in range(AT_ONCE)]
        running.wait()
        one_more = stack.client.post(a_chat(model))
        struck_s = time.monotonic()
        kill_worker(stack.nodes[NODES[model][1]])
        heard = [future.result(timeout=10) for future in hearing]
    latest_s = max(at_s for _, at_s in heard) - struck_s
    named = [(error["code"], error["stage"]) for error, _ in heard if error is not None]
    print(f"{model}: {len(named)} sessions heard of the lost tail within {latest_s * 1000:.0f} ms: {set(named)}")
    assert (one_more.status_code, one_more.json()["error"]["code"]) == (429, "too_many_generations")
    assert [stage for _, stage in named] == [1] * AT_ONCE
    assert latest_s <= LOST_DEADLINE_S
    stack.nodes[NODES[model][1]].next_ready()
    until_a_route(stack, model)
    stack.until_idle()
    stack.assert_settled()


@pytest.mark.parametrize("model", list(NODES))
def test_a_whole_answer_that_loses_its_head_is_an_error_with_its_status(stack: Stack, model: str) -> None:
    head = NODES[model][0]
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(stack.client.post, a_long_chat(model))
        until(lambda: set(stack.busy_nodes(NODES[model])) == set(NODES[model]), "the answer is on its way")
        kill_worker(stack.nodes[head])
        answer = asking.result(timeout=10)
    assert (answer.status_code, answer.json()["error"]["stage"]) == (503, 0)
    stack.nodes[head].next_ready()
    stack.until_idle()


@pytest.mark.parametrize(("model", "stage"), [("direct", 1), ("relay", 0), ("relay", 1)])
def test_an_agent_that_freezes_is_named_by_those_who_wait_for_its_stage(stack: Stack, model: str, stage: int) -> None:
    """Its worker goes on, but what leaves by the agent leaves no more; only the others can say so."""
    lost, other = NODES[model][stage], NODES[model][1 - stage]
    try:
        with stack.client.stream(a_long_chat(model)) as stream:
            stream.read_deltas(30)
            assert stack.busy_nodes([other])  # the control: there is something to be freed
            struck_s = time.monotonic()
            stop_agent(stack.nodes[lost])
            stream.read_to_end()
            took_s = time.monotonic() - struck_s
        stack.until_idle([other], FREED_DEADLINE_S)
    finally:
        thaw(stack, lost)
    assert stream.error is not None
    print(
        f"stop_agent stage {stage} {model}: {stream.error['code']} stage {stream.error['stage']} "
        f"after {took_s * 1000:.0f} ms, {stream.deltas} tokens"
    )
    assert stream.error["stage"] == stage
    assert took_s <= STEP_DEADLINE_S
    stack.until_idle()
    stack.assert_settled()
    until_served(stack, model)


def test_a_direct_route_does_without_its_heads_agent(stack: Stack) -> None:
    """Once the prompt is in, nothing of the answer passes through it."""
    head = NODES["direct"][0]
    try:
        with stack.client.stream(a_chat("direct", max_tokens=400, logit_bias={str(END_TOKEN_ID): -100})) as stream:
            stream.read_deltas(30)
            stop_agent(stack.nodes[head])
            struck_s = time.monotonic()
            stream.read_to_end()
        took_s = time.monotonic() - struck_s
    finally:
        thaw(stack, head)
    print(f"stop_agent stage 0 direct: {stream.deltas} tokens, the last {took_s * 1000:.0f} ms later, {stream.error}")
    assert stream.error is None
    assert stream.is_done
    stack.until_idle()
    stack.assert_settled()
    until_served(stack, "direct")


def until_served(stack: Stack, model: str) -> None:
    """Wait until a request is answered again, by whichever connections."""
    until(lambda: stack.client.post(a_chat(model, max_tokens=4)).status_code == 200, f"{model} serves again")
    stack.until_idle()


def test_an_agent_that_was_frozen_comes_back_with_the_worker_it_had(stack: Stack) -> None:
    """Its own absence is not the worker's: what is loaded stays loaded."""
    node = stack.nodes[NODES["relay"][1]]
    worker_pid = node.worker_pid
    os.kill(node.program.pid, signal.SIGSTOP)
    until(lambda: stack.metrics()["shards"] == len(stack.nodes) - 1, "the site has missed it")
    os.kill(node.program.pid, signal.SIGCONT)
    node.next_ready()
    assert node.worker_pid == worker_pid
    assert stack.client.post(a_chat("relay", max_tokens=4)).status_code == 200
