"""Site and relay die or are restarted mid-answer: nodes come back by themselves, and what was open is settled."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
import requests

from tests.e2e.answers import Stream, a_chat, a_long_chat
from tests.e2e.conftest import NODES, PLANS, fake_models
from tests.e2e.processes import until
from tests.e2e.raw_clients import SMALL_BUFFER_BYTES, ask, read_all, until_full
from tests.e2e.stack import COMPLETION_MICROS, Stack, a_stack
from tracker_site.ops.server import FLUSH_TIMEOUT_S
from tracker_site.routes.session.deadlines import RouteDeadlines

pytestmark = [pytest.mark.e2e, pytest.mark.native]

# Nodes and site reconnect with backoff: a few tenths of a second at first.
ROUTABLE_DEADLINE_S = 10.0
LOST_DEADLINE_S = 1.0
STEP_DEADLINE_S = RouteDeadlines().step_min_s
COLD_TELEMETRY_MS = 250
LATE_S = FLUSH_TIMEOUT_S / 2


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of this module's own: its site is restarted."""
    folder = tmp_path_factory.mktemp("restarts")
    with a_stack(folder, fake_models(folder, tuple(NODES))) as stack:
        stack.launch_all(PLANS)
        yield stack


def until_routable(stack: Stack, since_s: float) -> float:
    """Wait until both models answer; seconds since `since_s`."""

    def answers(model: str) -> bool:
        answer = stack.client.post(a_chat(model, max_tokens=4))
        if answer.status_code != 200:
            assert answer.json()["error"]["code"] in {"no_route", "relay_unavailable", "stage_lost"}, answer.text
        return answer.status_code == 200

    for model in NODES:
        until(lambda model=model: answers(model), f"{model} answers", ROUTABLE_DEADLINE_S)  # type: ignore[misc]
    return time.monotonic() - since_s


def read_to_the_end(stream: Stream) -> None:
    """A site that dies cuts its connections; one that is stopped ends its streams."""
    try:
        stream.read_to_end()
    except requests.RequestException:
        return


def test_the_very_first_request_has_telemetry_as_early_as_the_others(stack: Stack) -> None:
    with stack.client.stream(a_chat("direct", max_tokens=4)) as stream:
        stream.read_to_end()
    first_ms = (stream.first_telemetry_s or 0) * 1000
    print(f"first telemetry event of the first request of all: {first_ms:.0f} ms")
    assert stream.is_done
    assert first_ms <= COLD_TELEMETRY_MS


@pytest.mark.parametrize("model", list(NODES))
def test_a_relay_that_dies_ends_what_it_carried_and_comes_back(stack: Stack, model: str) -> None:
    dead = stack.relay_pid
    with stack.client.stream(a_long_chat(model)) as stream:
        stream.read_deltas(20)
        os.kill(dead, signal.SIGKILL)
        struck_s = time.monotonic()
        stream.read_to_end()
        took_s = time.monotonic() - struck_s
    assert stream.error is not None
    routable_s = until_routable(stack, struck_s)
    print(
        f"relay killed, {model}: {stream.error['code']} after {took_s * 1000:.0f} ms, routable after {routable_s:.2f} s"
    )
    assert took_s <= LOST_DEADLINE_S
    assert stack.relay_pid != dead
    record = stack.client.record(stream.generation_id)
    assert (record["status"], record["charge_micros"]) == ("failed", stream.deltas * COMPLETION_MICROS)
    stack.until_idle()
    stack.assert_settled()


@pytest.mark.parametrize("model", list(NODES))
def test_a_relay_that_freezes_is_blamed_itself_and_not_a_stage(stack: Stack, model: str) -> None:
    frozen = stack.relay_pid
    try:
        with stack.client.stream(a_long_chat(model)) as stream:
            stream.read_deltas(20)
            os.kill(frozen, signal.SIGSTOP)
            struck_s = time.monotonic()
            stream.read_to_end()
            took_s = time.monotonic() - struck_s
    finally:
        os.kill(frozen, signal.SIGCONT)
    thawed_s = time.monotonic()
    assert stream.error is not None
    code, stage = stream.error["code"], stream.error.get("stage")
    routable_s = until_routable(stack, thawed_s)
    print(
        f"relay frozen, {model}: {code} stage {stage} after {took_s * 1000:.0f} ms, routable {routable_s:.2f} s after"
    )
    assert code in {"relay_unavailable", "connection_lost"}
    assert stage is None
    assert took_s <= STEP_DEADLINE_S
    stack.until_idle()
    stack.assert_settled()


def test_a_stopping_site_gives_its_last_words_to_a_client_that_reads_late(stack: Stack) -> None:
    assert stack.site is not None
    with ask(stack, a_long_chat("direct"), buffer_bytes=SMALL_BUFFER_BYTES) as connection:
        until_full(connection)
        stack.site.process.send_signal(signal.SIGTERM)
        # It reads once the site has nothing else to do than to wait for it, or has gone without.
        with contextlib.suppress(subprocess.TimeoutExpired):
            stack.site.process.wait(LATE_S)
        answer = read_all(connection)
    stack.site.wait()
    stack.serve_again()
    until_routable(stack, time.monotonic())
    print(f"{len(answer)} bytes, the last of them {answer[-200:]!r}")
    assert b'"site_stopping"' in answer
    assert answer.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["restarted", "killed"])
def test_a_site_that_comes_back_has_its_nodes_again_and_settles_what_was_open(
    stack: Stack, number: signal.Signals
) -> None:
    assert stack.site is not None
    with stack.client.stream(a_long_chat("direct")) as direct, stack.client.stream(a_long_chat("relay")) as relayed:
        for stream in (direct, relayed):
            stream.read_deltas(20)
        # What a client does not read cannot reach it: it reads while the site ends, not afterwards.
        stack.site.process.send_signal(number)
        for stream in (direct, relayed):
            read_to_the_end(stream)
            assert not stream.is_done
            if number is signal.SIGTERM:
                assert stream.error is not None
                assert stream.error["code"] == "site_stopping"
    stack.site.wait()
    stack.serve_again()
    back_s = time.monotonic()
    routable_s = until_routable(stack, back_s)
    stack.until_idle()
    audit = stack.assert_settled()
    settled_s = time.monotonic() - back_s
    print(f"site {number.name}: routable {routable_s:.2f} s, settled {settled_s:.2f} s after it was back; {audit}")
    assert len(stack.metrics()["nodes_present"]) == 1
