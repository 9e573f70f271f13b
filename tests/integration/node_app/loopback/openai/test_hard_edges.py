"""The local API when things go wrong: clients that leave, do not read or may not ask, a worker that dies or is full."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import openai
import psutil
import pytest

from node_app.worker.health import HealthLimits
from tests.integration.node_app.local_node import (
    LocalNode,
    a_chat,
    a_local_node,
    a_long_chat,
    ready_node,
    unsplit_answer,
)
from tests.integration.node_app.node_process import a_node, poll_until
from tests.integration.node_app.raw_stream import a_raw_stream
from tests.simulators.fake_model import write_fake_model
from tests.simulators.faults import Faults
from tests.simulators.launcher import write_worker_program

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_S = 20.0
LONG = ("--context", "32768")
CONTENT = b'"content":"'


@pytest.fixture
def long_model(tmp_path: Path) -> Path:
    """The model of `fake_model` with room for answers that take a while."""
    return write_fake_model(tmp_path / "long" / "fake.gguf", n_layers=4, width=16, context_length=32_768)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    (tmp_path / "long").mkdir()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_cells_within_a_second(
    tmp_path: Path, long_model: Path, worker: Path, *, stream: bool
) -> None:
    async with a_local_node(tmp_path, long_model, worker, *LONG) as local:
        async with a_raw_stream(local, a_long_chat(max_tokens=30_000, stream=stream)) as raw:
            if stream:
                await raw.read_until(CONTENT)
            async with asyncio.timeout(DEADLINE_S):
                while (await local.worker_holds())[0] != 1:  # noqa: ASYNC110 - another process gives no event
                    await asyncio.sleep(0.02)
            raw.leave()
            took_s = await local.until_idle()
        print(f"cells free {took_s:.3f} s after the client left")
        assert took_s <= 1.0
        assert (await local.status())["local_sessions"] == 0


async def test_a_client_that_does_not_read_holds_up_nobody(
    tmp_path: Path, long_model: Path, simulated_worker: Path
) -> None:
    body = a_long_chat(max_tokens=30_000, stream=True, logprobs=True, top_logprobs=20)
    async with a_local_node(tmp_path, long_model, simulated_worker, *LONG) as local:
        await local.chat(max_tokens=3)
        agent = psutil.Process(local.node.process.pid)
        before_bytes = agent.memory_info().rss
        async with a_raw_stream(local, body, read_limit=1024) as stalled:
            answered = 0
            while (await local.worker_holds())[0] or answered < 5:
                assert (await local.chat(max_tokens=20)).status_code == 200
                answered += 1
            grown_bytes = agent.memory_info().rss - before_bytes
            events = await stalled.read_to_end()
        assert stalled.last_event["error"]["code"] == "client_too_slow"
        assert b"[DONE]" not in events
        print(f"{grown_bytes / 2**20:.1f} MiB growth, {answered} answers meanwhile")
        assert grown_bytes <= 32 * 2**20


async def test_fifty_requests_leave_nothing(tmp_path: Path, long_model: Path, worker: Path) -> None:
    async with a_local_node(tmp_path, long_model, worker, *LONG) as local:
        await local.chat(max_tokens=3)
        await local.until_idle()
        before = await _figures(local)
        outcomes: dict[str, int] = {}
        for number in range(50):
            outcome = await _one_request(local, number)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
        await local.until_idle()
        async with asyncio.timeout(DEADLINE_S):
            while await _figures(local) != before:  # noqa: ASYNC110 - another process gives no event
                await asyncio.sleep(0.05)
    print(f"{outcomes}; tasks and descriptors as before: {before}")
    assert outcomes == {"whole": 13, "streamed": 13, "left": 12, "refused": 12}


async def _figures(local: LocalNode) -> tuple[int, int, int]:
    status = await local.status()
    return status["sessions"], status["tasks"], local.descriptors


async def _one_request(local: LocalNode, number: int) -> str:
    match number % 4:
        case 0:
            assert (await local.chat(max_tokens=20)).status_code == 200
            return "whole"
        case 1:
            assert b"[DONE]" in (await local.chat(max_tokens=20, stream=True)).content
            return "streamed"
        case 2:
            async with a_raw_stream(local, a_long_chat(max_tokens=30_000, stream=True)) as raw:
                await raw.read_until(CONTENT)
            return "left"
        case _:
            assert (await local.chat(max_tokens=40_000)).status_code == 400
            return "refused"


async def test_a_killed_worker_is_an_error_event_and_the_next_one_answers(
    tmp_path: Path, long_model: Path, worker: Path
) -> None:
    async with a_local_node(tmp_path, long_model, worker, *LONG) as local:
        loop = asyncio.get_running_loop()
        async with a_raw_stream(local, a_long_chat(max_tokens=30_000, stream=True)) as raw:
            await raw.read_until(CONTENT)
            os.kill(local.worker_pid, signal.SIGKILL)
            killed_s = loop.time()
            await raw.read_to_end()
            took_s = loop.time() - killed_s
        error = raw.last_event["error"]
        assert (error["code"], error["stage"], error["type"]) == ("stage_lost", 0, "server_error")
        assert b"[DONE]" not in raw.seen
        meanwhile = await local.chat(max_tokens=3)
        again = await ready_node(local.node)
        assert (again.api_url, again.worker_pid != local.worker_pid) == (local.api_url, True)
        answer = (await again.chat(max_tokens=20)).json()
        assert answer["choices"][0]["message"]["content"] == unsplit_answer("hello", max_tokens=20)[0]
    print(f"told {took_s:.3f} s after the kill; meanwhile {meanwhile.status_code}")
    assert took_s <= 1.0
    assert (meanwhile.status_code, meanwhile.json()["error"]["code"]) in {(503, "not_ready"), (200, None)}


async def test_a_stopped_worker_is_found_out_in_time(tmp_path: Path, long_model: Path, simulated_worker: Path) -> None:
    async with a_local_node(tmp_path, long_model, simulated_worker, *LONG) as local:
        loop = asyncio.get_running_loop()
        async with a_raw_stream(local, a_long_chat(max_tokens=30_000, stream=True)) as raw:
            await raw.read_until(CONTENT)
            os.kill(local.worker_pid, signal.SIGSTOP)
            stopped_s = loop.time()
            await raw.read_to_end()
            took_s = loop.time() - stopped_s
        assert raw.last_event["error"]["code"] == "stage_lost"
        again = await ready_node(local.node)
        assert (await again.chat(max_tokens=5)).status_code == 200
    print(f"told {took_s:.1f} s after the worker was stopped")
    assert took_s <= HealthLimits().silence_s + 2.0  # the least step deadline is longer


@pytest.mark.parametrize(
    ("faults", "code"),
    [
        (Faults(fail_at_position=20), "engine_failed"),
        (Faults(bad_token_at_index=5), "bad_token_id"),
        (Faults(skip_token_at_index=5), "sequence_gap"),
        (Faults(refuse_open="contract_mismatch"), "contract_mismatch"),
    ],
)
async def test_a_worker_that_does_wrong_is_told_of(tmp_path: Path, fake_model: Path, faults: Faults, code: str) -> None:
    program = write_worker_program(tmp_path, faults)
    async with a_local_node(tmp_path, fake_model, program) as local:
        whole = await local.request("POST", "/chat/completions", json=a_long_chat())
        assert (whole.status_code, whole.json()["error"]["code"]) == (503, code)
        async with a_raw_stream(local, a_long_chat(stream=True)) as raw:
            await raw.read_to_end()
        if not faults.refuse_open:
            assert raw.last_event["error"]["code"] == code
        await local.until_idle()


async def test_a_full_worker_is_waited_for_and_then_told_of(
    tmp_path: Path, long_model: Path, simulated_worker: Path
) -> None:
    async with a_local_node(tmp_path, long_model, simulated_worker, *LONG, "--max-sessions", "1") as local:
        async with a_raw_stream(local, a_long_chat(max_tokens=30_000, stream=True)) as holder:
            await holder.read_until(CONTENT)
            reading = asyncio.create_task(holder.read_until(b"no such text"))
            with pytest.raises(openai.RateLimitError) as caught:
                await local.client.chat.completions.create(model="fake", messages=[{"role": "user", "content": "hi"}])
            assert caught.value.code in {"too_many_sessions", "kv_exhausted"}
            waiting = asyncio.create_task(local.chat(max_tokens=5))
            await poll_until_waits(local)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        answer = await waiting
        assert answer.status_code == 200, answer.text


async def poll_until_waits(local: LocalNode) -> None:
    """The other request has reached the node: it is one more connection."""
    before = local.descriptors
    async with asyncio.timeout(DEADLINE_S):
        while local.descriptors <= before:  # noqa: ASYNC110 - another process gives no event
            await asyncio.sleep(0.01)


FORBIDDEN = {
    "another name": {"Host": "rebound.example"},
    "another name with the port": {"Host": "rebound.example:{port}"},
    "another port": {"Host": "127.0.0.1:1"},
    "a page elsewhere": {"Origin": "http://evil.example"},
    "a page of a file": {"Origin": "null"},
    "a page of another local server": {"Origin": "http://127.0.0.1:3000"},
    "a page by https": {"Origin": "https://127.0.0.1:{port}"},
}
ALLOWED: dict[str, dict[str, str]] = {
    "a program": {},
    "by name": {"Host": "localhost:{port}"},
    "a page of its own": {"Origin": "http://127.0.0.1:{port}"},
}


async def test_web_pages_cannot_use_it(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    seen: dict[str, int] = {}
    async with a_local_node(tmp_path, fake_model, simulated_worker) as local:
        for name, headers in (FORBIDDEN | ALLOWED).items():
            filled = {key: value.format(port=local.port) for key, value in headers.items()}
            body = a_chat(max_tokens=2)
            for method, path in (("POST", "/chat/completions"), ("GET", "/models")):
                answer = await local.request(method, path, headers=filled, json=body if method == "POST" else None)
                seen[f"{method} {name}"] = answer.status_code
                if name in FORBIDDEN:
                    assert answer.json()["error"]["code"] in {"host_not_allowed", "origin_not_allowed"}
                assert not [header for header in answer.headers if header.lower().startswith("access-control-")]
        preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        assert (await local.request("OPTIONS", "/chat/completions", headers=preflight)).status_code == 403
        # A form needs no preflight; it is not taken for JSON either.
        form = await local.request("POST", "/chat/completions", data=b"{}", headers={"Content-Type": "text/plain"})
        assert form.status_code == 415
    expected = {f"{method} {name}": 403 for name in FORBIDDEN for method in ("POST", "GET")}
    expected |= {f"{method} {name}": 200 for name in ALLOWED for method in ("POST", "GET")}
    assert seen == expected


async def test_a_taken_port_is_one_line_and_status_2(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(a_local_node(tmp_path, fake_model, simulated_worker))
        given = ["--gguf", str(fake_model), "--worker", str(simulated_worker), "--api-port", str(first.port)]
        second = await stack.enter_async_context(a_node(tmp_path / "second", *given))
        assert await second.wait() == 2
        (line,) = second.log
        assert line.startswith(f"meshnet node: --api-port {first.port}: Address already in use; choose another")
        assert line.endswith("[bad_settings]")
        assert (await first.chat(max_tokens=2)).status_code == 200


async def test_a_port_that_is_asked_for_is_taken(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    async with a_local_node(tmp_path, fake_model, simulated_worker) as first:
        port = first.port
    async with a_local_node(tmp_path / "again", fake_model, simulated_worker, "--api-port", str(port)) as second:
        assert second.api_url == f"http://127.0.0.1:{port}/v1"


async def test_the_end_of_the_node_is_told_to_those_it_answers(
    tmp_path: Path, long_model: Path, simulated_worker: Path
) -> None:
    async with a_local_node(tmp_path, long_model, simulated_worker, *LONG) as local:
        async with a_raw_stream(local, a_long_chat(max_tokens=30_000, stream=True)) as raw:
            await raw.read_until(CONTENT)
            local.node.process.send_signal(signal.SIGTERM)
            await raw.read_to_end()
        assert raw.last_event["error"]["code"] == "cancelled"
        assert await local.node.wait() == 0
    assert not any("Traceback" in line or "Task exception" in line for line in local.node.log)
    await poll_until(lambda: not (local.node.state_dir / "local_api.json").exists(), DEADLINE_S)
