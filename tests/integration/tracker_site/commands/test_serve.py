"""`meshnet site serve` as a process: it comes up, it keeps its relay, and nothing outlives it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from meshnet.v1 import control_pb2
from tracker_site.control_plane.consumers import CLOSE_REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DEADLINE_S = 30.0
PROGRAM = [sys.executable, "-c", "import sys; from tracker_site.commands import main; sys.exit(main(sys.argv[1:]))"]
LAUNCHER = "import subprocess, sys; subprocess.run(sys.argv[1:] + ['--parent-pid', str(__import__('os').getpid())])"


def until(fact: Callable[[], object]) -> None:
    limit = time.monotonic() + DEADLINE_S
    while not fact():
        assert time.monotonic() < limit, "not in time"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Site:
    """One data directory, and what was started on it."""

    def __init__(self, folder: Path) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MESHNET_", "DJANGO_"))}
        self.environment = {**own, "MESHNET_SITE_DATA": str(folder)}
        self.started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **variables}
        return subprocess.run(
            [*PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )

    def serve(
        self, *before: str, options: tuple[str, ...] = ("--relay-port", "0"), **variables: str
    ) -> tuple[subprocess.Popen[str], dict[str, object]]:
        command = [*before, *PROGRAM, "serve", "--port", "0", *options]
        process = subprocess.Popen(
            command, env={**self.environment, **variables}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.started.append(process)
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["ready"] is True
        return process, ready

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate(timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("migrated")
    assert Site(folder).run("migrate").returncode == 0
    return folder


@pytest.fixture
def site(migrated: Path, tmp_path: Path) -> Iterator[Site]:
    shutil.copytree(migrated, tmp_path, dirs_exist_ok=True)
    site = Site(tmp_path)
    yield site
    site.end()


def relay_of(pid: object) -> int:
    """The relay's process id, once there is one."""
    assert isinstance(pid, int)
    until(lambda: psutil.Process(pid).children())
    return psutil.Process(pid).children()[0].pid


def port_of(url: object) -> int:
    return int(str(url).rsplit(":", 1)[1])


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_it_serves_and_ends_when_told(site: Site) -> None:
    process, ready = site.serve()
    relay = relay_of(ready["pid"])
    health = requests.get(f"{ready['site']}/healthz", timeout=DEADLINE_S)
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    assert requests.get(f"{ready['site']}/static/site.css", timeout=DEADLINE_S).status_code == 200
    assert is_listening(port_of(ready["relay"]))
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
    assert gone(relay)


@pytest.mark.parametrize(("first_message", "code"), [(b"\xff", "malformed"), (None, "hello_timeout")])
def test_a_refused_node_is_told_and_its_connection_closed(site: Site, first_message: bytes | None, code: str) -> None:
    _, ready = site.serve()
    with connect(f"ws://127.0.0.1:{port_of(ready['site'])}/nodes/control", open_timeout=DEADLINE_S) as node:
        node.recv(DEADLINE_S)  # the challenge
        if first_message is not None:
            node.send(first_message)
        refusal = control_pb2.SiteMessage.FromString(bytes(node.recv(DEADLINE_S, decode=False))).refusal
        with pytest.raises(ConnectionClosed) as closed:
            node.recv(DEADLINE_S)
    assert refusal.code == code
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == CLOSE_REFUSED


def test_no_child_survives_its_sudden_death(site: Site) -> None:
    process, ready = site.serve()
    relay = relay_of(ready["pid"])
    process.kill()
    until(lambda: gone(relay))


def test_it_dies_with_its_parent_where_asked(site: Site) -> None:
    launcher, ready = site.serve(sys.executable, "-c", LAUNCHER)
    assert isinstance(ready["pid"], int)
    pids = [ready["pid"], relay_of(ready["pid"])]
    launcher.kill()
    until(lambda: all(gone(pid) for pid in pids))


def test_a_dead_relay_comes_back_on_its_port(site: Site) -> None:
    _, ready = site.serve()
    first = relay_of(ready["pid"])
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first))
    until(lambda: is_listening(port_of(ready["relay"])))
    assert relay_of(ready["pid"]) != first
    assert requests.get(f"{ready['site']}/healthz", timeout=DEADLINE_S).status_code == 200


@pytest.mark.parametrize("option", ["--port", "--relay-port"])
def test_a_taken_port_is_one_line_that_names_its_option(site: Site, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = {"--port": "0", "--relay-port": "0", option: str(taken.getsockname()[1])}
        done = site.run("serve", *(word for pair in ports.items() for word in pair))
    assert (done.returncode, done.stdout) == (2, "")
    ours = [line for line in done.stderr.splitlines() if line.startswith("meshnet site: ")]
    assert len(ours) == 1
    where = f"127.0.0.1:{ports[option]}: Address already in use"
    assert f"{where}; choose another with {option}, 0 takes a free one [port_taken]" in ours[0]


def test_a_taken_port_of_a_relay_alone_is_one_line(site: Site) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = site.run("relay", "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith("; choose another with --port, 0 takes a free one [port_taken]")


def test_an_address_of_another_machine_is_one_line(site: Site) -> None:
    done = site.run("serve", "--host", "192.0.2.1", "--port", "0", "--relay-port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith("; name an address of this machine with --host [address_unavailable]")


@pytest.mark.parametrize("command", ["audit", "serve --port 0 --relay-port 0"])
def test_an_old_database_is_one_line_that_names_it(tmp_path: Path, command: str) -> None:
    (tmp_path / "site.sqlite3").touch()
    done = Site(tmp_path).run(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    line = done.stderr.splitlines()[-1]
    assert line.endswith("[not_migrated]")
    assert str(tmp_path / "site.sqlite3") in line


COMMANDS_ON_A_SITE = [
    "import-model model.gguf", "import-golden model golden", "drop-golden model", "create-user alice",
    "create-key alice", "create-node-token alice", "grant alice 1", "audit", "serve --port 0 --relay-port 0",
    "relay --port 0",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS_ON_A_SITE)
def test_where_no_site_is_nothing_is_made_and_the_folder_is_named(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "absent"
    done = Site(folder).run(*command.split())
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert done.stderr == (
        f"meshnet site: There is no site: looked in {folder}, which MESHNET_SITE_DATA names: set MESHNET_SITE_DATA to "
        "the folder of your site, or make a new one in this folder with `meshnet site migrate` [no_site]\n"
    )


def test_a_forgotten_variable_makes_no_second_site(tmp_path: Path) -> None:
    site = Site(tmp_path)
    del site.environment["MESHNET_SITE_DATA"]
    done = site.run("create-key", "alice", HOME=str(tmp_path))
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert f"looked in {tmp_path}/.local/share/meshnet/site, as MESHNET_SITE_DATA is not set: " in done.stderr


def test_with_a_database_server_the_keys_are_the_site_s(tmp_path: Path) -> None:
    url = "postgresql://u:p@127.0.0.1:1/d"
    done = Site(tmp_path).run("audit", MESHNET_DATABASE_URL=url)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert done.stderr.endswith("[no_site]\n")


def test_a_relay_on_a_machine_of_its_own_needs_the_site_s_key_alone(site: Site, tmp_path: Path) -> None:
    site.serve()
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(tmp_path / "site.key", folder)
    relay = Site(folder)
    process = subprocess.Popen(
        [*PROGRAM, "relay", "--port", "0"],
        env=relay.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    site.started.append(process)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["ready"] is True


def test_a_relay_that_nodes_could_not_reach_is_one_line(site: Site) -> None:
    done = site.run("serve", "--host", "0.0.0.0", "--port", "0", "--relay-port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith("[no_relay_url]")


def test_a_relay_that_runs_elsewhere_is_used_and_none_is_started(site: Site, tmp_path: Path) -> None:
    _, first = site.serve()
    assert site.run("migrate", MESHNET_SITE_DATA=str(tmp_path / "other")).returncode == 0
    elsewhere = {"MESHNET_SITE_DATA": str(tmp_path / "other"), "MESHNET_RELAY_URL": str(first["relay"])}
    second, ready = site.serve(options=("--no-relay",), **elsewhere)
    assert ready["relay"] == first["relay"]
    assert psutil.Process(second.pid).children() == []
    second.send_signal(signal.SIGTERM)
    assert second.wait(DEADLINE_S) == 0
    assert is_listening(port_of(first["relay"]))


def test_a_second_site_with_the_same_data_is_refused_and_harms_nothing(site: Site, tmp_path: Path) -> None:
    first, _ = site.serve()
    done = site.run("serve", "--port", "0", "--relay-port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    line = done.stderr.splitlines()[-1]
    assert str(tmp_path) in line
    assert line.endswith("[data_in_use]")
    first.kill()  # leaves no lock behind
    first.wait(DEADLINE_S)
    _, ready = site.serve()
    assert ready["ready"] is True


def test_no_relay_at_all_is_one_line(site: Site) -> None:
    done = site.run("serve", "--port", "0", "--no-relay")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith("[no_relay_url]")


@pytest.mark.parametrize(
    ("name", "value"),
    [("MESHNET_DEBUG", "perhaps"), ("MESHNET_DATABASE_URL", "mysql://x/y"), ("MESHNET_DATABASE_URL", "postgresql://x")],
)
def test_a_wrong_variable_is_named(site: Site, name: str, value: str) -> None:
    done = site.run("audit", **{name: value})
    assert (done.returncode, done.stdout) == (2, "")
    assert name in done.stderr


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = Site(tmp_path / "file").run("migrate")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"meshnet site: {tmp_path / 'file'}: File exists\n"


def test_a_path_of_escapes_stays_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "\x1b[2J\nend"
    folder.write_bytes(b"")
    done = Site(folder).run("migrate")
    assert done.stderr == f"meshnet site: {tmp_path}/?[2J?end: File exists\n"


def test_a_database_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "site.sqlite3").mkdir()
    done = Site(tmp_path).run("migrate")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "meshnet site: the database: unable to open database file\n"


def test_keys_and_database_are_their_owners_alone(site: Site, migrated: Path, tmp_path: Path) -> None:
    site.serve()
    paths = (tmp_path / "secret.key", tmp_path / "site.key", migrated / "site.sqlite3")
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600] * 3
