"""Streams on the wire: comments before tokens, errors as events, and clients that leave or do not read."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest

if TYPE_CHECKING:
    from tests.contract.openai.conftest import LiveSite

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "ends", "messages": [{"role": "user", "content": "hello"}], "stream": True}


def events_of(text: str) -> list[str]:
    assert text.endswith("\n\n")
    return text[:-2].split("\n\n")


def telemetry_of(events: list[str]) -> list[dict[str, Any]]:
    return [json.loads(event.removeprefix(": meshnet ")) for event in events if event.startswith(": meshnet ")]


def open_stream(site: LiveSite, body: dict[str, Any]) -> socket.socket:
    """A connection of our own, so that we decide when it is read and closed."""
    address = urlparse(site.url)
    payload = json.dumps(body).encode()
    connection = socket.create_connection((address.hostname or "", address.port or 0), timeout=10)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {site.keys['alice']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
    )
    connection.sendall(head.encode() + payload)
    return connection


def read_until(connection: socket.socket, part: bytes) -> bytes:
    received = b""
    while part not in received:
        data = connection.recv(4096)
        assert data, received
        received += data
    return received


def request_id(received: bytes) -> str:
    (line,) = [line for line in received.split(b"\r\n") if line.lower().startswith(b"x-request-id:")]
    return line.split(b":", 1)[1].strip().decode()


def test_headers_and_framing(site: LiveSite) -> None:
    response = site.post(CHAT, BODY)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert response.headers["Cache-Control"] == "no-cache"
    response.encoding = "utf-8"
    events = events_of(response.text)
    assert events[-1] == "data: [DONE]"
    assert all(event.startswith((": meshnet {", "data: ")) and "\n" not in event for event in events)


def test_telemetry_comes_before_the_first_token_and_shows_the_route(site: LiveSite) -> None:
    response = site.post(CHAT, BODY | {"model": "slow", "max_tokens": 40})
    events = events_of(response.content.decode())
    first_data = next(index for index, event in enumerate(events) if event.startswith("data: "))
    before = telemetry_of(events[:first_data])
    assert before
    assert before[-1]["prefill_total"] == 8
    last = telemetry_of(events)[-1]
    assert (last["phase"], last["generated_tokens"]) == ("done", 40)
    assert [stage["node"] for stage in last["stages"]] == ["node-0", "node-1"]
    assert [health["state"] for health in last["route_health"]] == ["ok", "ok"]
    assert last["tokens_per_s"] > 0


def test_the_first_telemetry_event_is_there_within_100_ms(site: LiveSite) -> None:
    times_ms = []
    for _ in range(15):
        started = time.monotonic()
        with open_stream(site, BODY | {"model": "slow", "max_tokens": 2}) as connection:
            read_until(connection, b": meshnet ")
            times_ms.append((time.monotonic() - started) * 1000)
            read_until(connection, b"[DONE]")
    times_ms.sort()
    print(f"first telemetry event: median {times_ms[7]:.1f} ms, worst {times_ms[-1]:.1f} ms of {len(times_ms)}")
    assert times_ms[7] <= 100


def test_a_failure_is_one_error_event_and_the_end(site: LiveSite) -> None:
    events = events_of(site.post(CHAT, BODY | {"model": "lost"}).content.decode())
    assert events[-1].startswith('data: {"error":')
    error = json.loads(events[-1].removeprefix("data: "))["error"]
    assert (error["code"], error["stage"], error["type"]) == ("stage_lost", 1, "server_error")
    assert telemetry_of(events)[-1]["failure"]["stage"] == 1


def test_a_client_that_leaves_ends_its_route_within_a_second(site: LiveSite) -> None:
    with open_stream(site, BODY | {"model": "slow", "max_tokens": 2000}) as connection:
        generation_id = request_id(read_until(connection, b'"content":"c"'))
    left = time.monotonic()
    record = site.record(generation_id)
    assert time.monotonic() - left < 1.5
    assert (record["status"], record["failure"]["code"]) == ("cancelled", "client_disconnected")
    assert record["usage"]["completion_tokens"] < 100


def test_a_client_that_leaves_before_the_first_token(site: LiveSite) -> None:
    with open_stream(site, BODY | {"model": "stalled"}) as connection:
        generation_id = request_id(read_until(connection, b": meshnet "))
    assert site.record(generation_id)["status"] == "cancelled"


def test_a_client_that_leaves_a_whole_answer(site: LiveSite) -> None:
    before = site.query("select count(*) from gateway_generationrecord where ending = 'cancelled'")[0][0]
    with open_stream(site, BODY | {"model": "slow", "max_tokens": 2000, "stream": False}):
        deadline = time.monotonic() + 5
        while site.open_holds() == 0 and time.monotonic() < deadline:
            pass
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        after = site.query("select count(*) from gateway_generationrecord where ending = 'cancelled'")[0][0]
        if after > before:
            return
    pytest.fail("the generation was not cancelled")


@pytest.mark.timeout(180)
def test_clients_that_do_not_read_cost_little_and_hold_up_nobody(site: LiveSite) -> None:
    site.post(CHAT, BODY)
    before_bytes = site.resident_bytes
    body = BODY | {"model": "endless", "max_tokens": 30_000, "logprobs": True, "top_logprobs": 20}
    stalled = [open_stream(site, body) for _ in range(2)]
    ids = [request_id(read_until(connection, b": meshnet ")) for connection in stalled]
    try:
        answered = 0
        for _ in range(20):
            assert site.post(CHAT, BODY | {"stream": False}).status_code == 200
            answered += 1
        codes = [site.record_within(generation_id, 40.0)["failure"]["code"] for generation_id in ids]
        grown_bytes = site.resident_bytes - before_bytes
    finally:
        for connection in stalled:
            connection.close()
    print(
        f"{len(ids)} stalled clients: {grown_bytes / 2**20:.1f} MiB growth, {answered} answers meanwhile, {set(codes)}"
    )
    assert set(codes) == {"client_too_slow"}
    assert grown_bytes <= 32 * 2**20


def test_a_client_that_does_not_read_is_worked_for_no_longer_than_its_buffers_last(site: LiveSite) -> None:
    """Pieces of a few hundred bytes: the kernel alone would take ten thousand of them."""
    with open_stream(site, BODY | {"model": "endless", "max_tokens": 30_000}) as connection:
        generation_id = request_id(read_until(connection, b": meshnet "))
        record = site.record_within(generation_id, 20.0)
    tokens = record["usage"]["completion_tokens"]
    print(f"a client that does not read: {record['failure']['code']} after {tokens} tokens")
    assert record["failure"]["code"] == "client_too_slow"
    assert tokens < 1500


def test_at_the_end_nothing_is_left_open(site: LiveSite) -> None:
    deadline = time.monotonic() + 5
    while site.open_holds() and time.monotonic() < deadline:
        pass
    assert site.open_holds() == 0
    assert site.ledger_sum() == 0
    assert site.query("select count(*) from gateway_generationrecord")[0][0] > 10


def test_no_text_reaches_the_log(site: LiveSite) -> None:
    secret = "a very private sentence"
    for model in ("ends", "lost", "no-route"):
        site.post(CHAT, BODY | {"model": model, "messages": [{"role": "user", "content": secret}]})
    site.post(CHAT, {"model": secret, "messages": secret})
    log = site.log.read_text()
    assert secret not in log
    assert "Traceback" not in log
