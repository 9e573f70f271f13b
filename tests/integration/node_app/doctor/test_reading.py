"""The doctor's eyes: what it reads of a machine, a node and a site, good and bad. Nothing it looks at is changed."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
import time
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meshnet.constants import WIRE_VERSION, WIRE_VERSION_MIN
from meshnet.llama_library import name_library
from node_app.doctor.judging.state import AgentFacts, EnrolmentFacts
from node_app.doctor.judging.worker import judge_devices, judge_version
from node_app.doctor.reading import programs, site, state
from node_app.doctor.reading.computer import nearest_existing, read_descriptor_limit, read_free_bytes, try_listening
from node_app.site.identity import IdentityStore
from node_app.status.local_address import ADDRESS_FILE
from tests.integration.node_app.site_under_test import Site, a_site
from tests.integration.node_app.ui import fake_agent
from tests.integration.node_app.ui.fake_agent import FakeAgent
from tests.simulators.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Programs


def script(folder: Path, text: str) -> Path:
    program = folder / "program"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


@pytest.mark.native
def test_the_built_worker_is_well(worker_program: Path) -> None:
    findings = [*judge_version(programs.run_worker(worker_program, "--version"))]
    findings.append(judge_devices(programs.run_worker(worker_program, "--list-devices")))
    assert [finding.verdict for finding in findings] == ["ok", "ok", "ok"]


def test_a_program_is_run_with_its_option_and_without_our_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHNET_TOKEN", "secret")
    run = programs.run_worker(script(tmp_path, 'echo "$1 [$MESHNET_TOKEN]"; echo why >&2; exit 3'), "--version")
    assert (run.exit_status, run.output, run.error) == (3, b"--version []\n", "why")


def test_a_program_that_dies_hangs_or_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "RUN_TIMEOUT_S", 0.3)
    assert programs.run_worker(script(tmp_path, "kill -ILL $$"), "--version").exit_status == -4
    assert programs.run_worker(script(tmp_path, "exec sleep 30"), "--version").exit_status is None
    (tmp_path / "text").write_text("no program")
    assert programs.run_worker(tmp_path / "text", "--version").exit_status == programs.NOT_STARTED


def test_what_a_program_writes_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "OUTPUT_LIMIT_BYTES", 100)
    many = "for number in $(seq 1000 1999); do echo $number; echo no $number >&2; done"
    run = programs.run_worker(script(tmp_path, many), "--version")
    assert (run.exit_status, len(run.output), run.error) == (0, 100, "no 1999")
    assert run.output.startswith(b"1000\n1001\n")


def test_imports_are_tried_in_a_process_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meshnet_fails.py").write_text("print('noise')\nraise OSError('libEGL.so.1: cannot open\\nmore')\n")
    (tmp_path / "meshnet_dies.py").write_text("import os\nos._exit(3)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    problems = programs.read_import_problems(["json", "no_such_module_here", "meshnet_fails", "email"], os.environ)
    assert set(problems) == {"no_such_module_here", "meshnet_fails"}
    assert problems["meshnet_fails"].startswith("libEGL.so.1: cannot open")
    problems = programs.read_import_problems(["json", "meshnet_dies", "email"], os.environ)
    assert set(problems) == {"meshnet_dies", "email"}


@pytest.mark.llama
def test_the_bindings_find_the_library_beside_the_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = Path(os.environ["LLAMA_CPP_LIB_PATH"])
    monkeypatch.delenv("LLAMA_CPP_LIB_PATH")
    beside, elsewhere = dict(os.environ), dict(os.environ)
    name_library(beside, [folder])
    name_library(elsewhere, [tmp_path])
    assert programs.read_import_problems(["llama_cpp"], beside) == {}
    assert set(programs.read_import_problems(["llama_cpp"], elsewhere)) == {"llama_cpp"}


# The machine


def test_listening_is_tried() -> None:
    assert try_listening("127.0.0.1:0") == ""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "in use" in try_listening(f"127.0.0.1:{taken.getsockname()[1]}")
    assert try_listening("[::1]:0") in {
        "",
        "Cannot assign requested address",
        "Address family not supported by protocol",
    }
    assert try_listening("192.0.2.1:0")
    assert try_listening("no.such.host.invalid:0")


def test_limits_and_room(tmp_path: Path) -> None:
    limit = read_descriptor_limit()
    assert limit is None or limit > 16
    assert nearest_existing(tmp_path / "a" / "b") == tmp_path
    assert read_free_bytes(tmp_path) > 0


# The state directory and its node


def test_a_directory_is_looked_at_and_not_made(tmp_path: Path) -> None:
    wanted = tmp_path / "state"
    facts = state.read_directory(wanted)
    assert (facts.exists, facts.path) == (False, str(tmp_path))
    assert not wanted.exists()
    wanted.mkdir(mode=0o750)
    facts = state.read_directory(wanted)
    assert (facts.exists, facts.is_directory, facts.is_own, facts.mode) == (True, True, True, 0o750)
    assert stat.S_IMODE(wanted.stat().st_mode) == 0o750
    (tmp_path / "file").touch()
    assert not state.read_directory(tmp_path / "file" / "state").is_directory


def test_a_running_node_tells_its_status(tmp_path: Path) -> None:
    assert state.read_agent(tmp_path) == AgentFacts()
    with FakeAgent(tmp_path, pid=4711) as agent:
        facts = state.read_agent(tmp_path)
        assert facts.status is not None
        assert (facts.pid, facts.status.sessions) == (4711, 2)
        assert agent.seen == ["GET /status"]
        agent.stop_listening()
        assert state.read_agent(tmp_path).problem == "process 4711 is gone and left its address file here"


@pytest.mark.parametrize(
    ("misbehaviour", "part"),
    [
        (fake_agent.answer_another_page, "not as a node"),
        (fake_agent.answer_hugely, "not as a node"),
        (fake_agent.redirect_elsewhere, "status 302"),
        (fake_agent.answer_garbage, ""),
        (fake_agent.answer_half, ""),
    ],
)
def test_a_node_that_answers_wrongly_is_a_problem(
    misbehaviour: Callable[[BaseHTTPRequestHandler], None], part: str, tmp_path: Path
) -> None:
    with FakeAgent(tmp_path, misbehaviour=misbehaviour) as agent:
        facts = state.read_agent(tmp_path)
        assert facts.status is None
        assert facts.problem
        assert part in facts.problem
        assert fake_agent.TOKEN not in repr(facts)
        assert agent.asked("GET /elsewhere") == 0


def test_a_silent_node_and_a_wrong_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "STATUS_TIMEOUT_S", 0.2)
    with FakeAgent(tmp_path) as agent:
        agent.misbehaviour = fake_agent.answer_never(agent.over)
        assert "cannot be asked: it does not answer in time" in state.read_agent(tmp_path).problem
        agent.write_address(token="another-token-0123456789")
        assert "status 401" in state.read_agent(tmp_path).problem
    (tmp_path / ADDRESS_FILE).write_text("{}")
    assert "start the node again" in state.read_agent(tmp_path).problem


def test_enrolment_is_read_and_nothing_is_drawn(tmp_path: Path) -> None:
    url = "https://site.example"
    assert state.read_enrolment(tmp_path / "none", url) == EnrolmentFacts(has_key=False, node_id="")
    assert state.read_enrolment(tmp_path, url) == EnrolmentFacts(has_key=False, node_id="")
    assert list(tmp_path.iterdir()) == []
    store = IdentityStore(tmp_path)
    key = store.signing_key()
    store.remember(url, "n-1")
    facts = state.read_enrolment(tmp_path, url)
    assert facts == EnrolmentFacts(has_key=True, node_id="n-1")
    assert state.read_enrolment(tmp_path, "https://other.example").node_id == ""
    (tmp_path / "install.key").write_bytes(b"short")
    damaged = state.read_enrolment(tmp_path, url)
    assert "install.key" in damaged.problem
    assert key.to_bytes().hex() not in repr(damaged)


# The site


@contextmanager
def a_web_server(status: int, headers: dict[str, str], body: bytes, wait_s: float = 0.0) -> Iterator[str]:
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def date_time_string(self, timestamp: float | None = None) -> str:
            return headers.get("Date", super().date_time_string(timestamp))

        def do_GET(self) -> None:
            over.wait(wait_s)
            self.send_response(status if self.path == "/healthz" else 404)
            for name, value in headers.items():
                if name != "Date":
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        over.set()
        server.shutdown()
        thread.join(5)
        server.server_close()


def test_the_health_of_a_real_site(live_server: object) -> None:
    facts = site.read_health(live_server.url)
    assert (facts.problem, facts.http_status, facts.says_ok) == ("", 200, True)
    assert facts.round_trip_ms > 0


@pytest.mark.parametrize(
    ("status", "headers", "body", "says_ok"),
    [
        (200, {}, b'{"status": "ok"}', True),
        (503, {}, b'{"status": "no_database"}', False),
        (200, {}, b"<html>ok</html>", False),
        (200, {}, b'["ok"]', False),
        (200, {}, b"[" * 3000, False),
        (200, {}, b"", False),
    ],
)
def test_health_is_read(status: int, headers: dict[str, str], body: bytes, says_ok: bool) -> None:
    with a_web_server(status, headers, body) as url:
        facts = site.read_health(url)
    assert (facts.problem, facts.http_status, facts.says_ok, facts.location) == ("", status, says_ok, "")


def test_a_redirect_is_told_and_not_followed() -> None:
    with a_web_server(301, {"Location": "https://elsewhere.example/"}, b"") as url:
        assert site.read_health(url).location == "https://elsewhere.example/"


@pytest.mark.parametrize(("offset_s", "tolerance_s"), [(0, 5), (7200, 5), (-86400, 5)])
def test_the_clocks_are_compared(offset_s: float, tolerance_s: float) -> None:
    date = formatdate(time.time() - offset_s, usegmt=True)
    with a_web_server(200, {"Date": date}, b"") as url:
        skew_s = site.read_health(url).skew_s
    assert skew_s is not None
    assert abs(skew_s - offset_s) < tolerance_s


def test_a_date_that_is_none_is_none() -> None:
    with a_web_server(200, {"Date": "yesterday"}, b"") as url:
        assert site.read_health(url).skew_s is None


def test_a_site_that_is_not_there_or_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot be reached: nothing listens there" in site.read_health(f"http://127.0.0.1:{free_port()}").problem
    assert "cannot be reached: its name" in site.read_health("http://no.such.host.invalid").problem
    monkeypatch.setattr(site, "READ_TIMEOUT_S", 0.2)
    with a_web_server(200, {}, b"", wait_s=5.0) as url:
        assert "cannot be reached: it does not answer in time" in site.read_health(url).problem


def test_a_site_without_tls_that_is_asked_for_it_is_said() -> None:
    with a_web_server(200, {}, b"") as url:
        assert "does not speak TLS: is it http://?" in site.read_health(url.replace("http:", "https:")).problem


async def test_the_control_connection_of_the_real_machine() -> None:
    async with a_site(Site("ws://127.0.0.1:9")) as running:
        facts = await asyncio.to_thread(site.read_control, running.url)
        assert (facts.problem, facts.version_min, facts.version_max) == ("", WIRE_VERSION_MIN, WIRE_VERSION)
        assert running.nodes == {}
        assert running.connections == {}  # the doctor did not say who it is


@pytest.mark.parametrize("message", [b"\xff\xff\xff", b"", "text", b"\x12\x00"])
async def test_a_control_connection_that_says_something_else(message: bytes | str) -> None:
    from websockets.asyncio.server import ServerConnection, serve

    async def speak(connection: ServerConnection) -> None:
        await connection.send(message)
        await connection.wait_closed()

    async with serve(speak, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        facts = await asyncio.to_thread(site.read_control, f"http://127.0.0.1:{port}")
    assert "Meshnet site" in facts.problem


async def test_a_control_connection_that_is_silent_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from websockets.asyncio.server import ServerConnection, serve

    monkeypatch.setattr(site, "READ_TIMEOUT_S", 0.2)

    async def listen(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with serve(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert "in time" in (await asyncio.to_thread(site.read_control, f"http://127.0.0.1:{port}")).problem
    assert "cannot be opened" in (await asyncio.to_thread(site.read_control, f"http://127.0.0.1:{free_port()}")).problem
    with a_web_server(200, {}, b"no WebSocket") as url:
        assert "cannot be opened" in (await asyncio.to_thread(site.read_control, url)).problem
