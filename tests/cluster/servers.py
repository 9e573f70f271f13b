"""PostgreSQL and Redis of one test run: in folders of their own, on free ports of 127.0.0.1.

Invariants: both die with the process that started them, and end before `running_servers` returns. PostgreSQL refuses to
run as root, so root starts it as `nobody`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster_parts import Servers
from tests.e2e.processes import DEADLINE_S, Family, until
from tests.simulators.ports import free_port

USER = "meshnet"
UNPRIVILEGED_USER, UNPRIVILEGED_GROUP = "nobody", "nogroup"
# The kernel's signal is lost when a process changes its user: setpriv asks for it again, afterwards.
_AS_NOBODY = (
    "/usr/bin/setpriv", f"--reuid={UNPRIVILEGED_USER}", f"--regid={UNPRIVILEGED_GROUP}", "--clear-groups",
    "--pdeathsig=KILL", "--",
)  # fmt: skip


@dataclass(frozen=True)
class RunningServers:
    """Their addresses, as the site takes them."""

    database_url: str
    redis_url: str


@contextmanager
def running_servers(found: Servers, folder: Path) -> Iterator[RunningServers]:
    """Start both and wait until they answer; `folder` takes their logs."""
    family = Family(folder, {**found.environment(), "LC_ALL": "C.UTF-8"})
    # Not below pytest's folder, which only the user of the tests may enter.
    data = Path(tempfile.mkdtemp(prefix="meshnet-cluster-"))
    try:
        database_url = _start_postgresql(found, family, data)
        redis_url = _start_redis(found, family)
        yield RunningServers(database_url, redis_url)
    finally:
        for program in reversed(family.programs):
            # For PostgreSQL this means: close the sessions that are left. SIGTERM would wait for them.
            program.kill(signal.SIGINT)
        shutil.rmtree(data)


def _unprivileged(command: Sequence[str]) -> list[str]:
    return [*_AS_NOBODY, *command] if os.geteuid() == 0 else list(command)


def _start_postgresql(found: Servers, family: Family, data: Path) -> str:
    password = secrets.token_hex(16)
    password_file, cluster = data / "password", data / "postgresql"
    password_file.write_text(password)
    if os.geteuid() == 0:
        for path in (data, password_file):
            shutil.chown(path, UNPRIVILEGED_USER, UNPRIVILEGED_GROUP)
    initdb = [str(found.postgresql / "initdb"), "--pgdata", str(cluster), "--username", USER, "--encoding", "UTF8"]
    options = ["--auth", "scram-sha-256", "--pwfile", str(password_file), "--no-sync"]
    done = subprocess.run(
        _unprivileged([*initdb, *options]),
        cwd=data,
        env={**os.environ, **family.environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    port = free_port()
    settings = ["unix_socket_directories=", "listen_addresses=127.0.0.1", "fsync=off", "jit=off"]
    command = [str(found.postgresql / "postgres"), "-D", str(cluster), "-p", str(port)]
    command += [word for setting in settings for word in ("-c", setting)]
    server = family.start("postgresql", _unprivileged(command))
    answers = [str(found.postgresql / "pg_isready"), "--host", "127.0.0.1", "--port", str(port), "--quiet"]

    def is_ready() -> bool:
        assert server.process.poll() is None, server.last_words()
        environment = {**os.environ, **family.environment}
        return subprocess.run(answers, env=environment, timeout=DEADLINE_S, check=False).returncode == 0

    until(is_ready, "PostgreSQL answers")
    return f"postgresql://{USER}:{password}@127.0.0.1:{port}/postgres"


def _start_redis(found: Servers, family: Family) -> str:
    port = free_port()
    # Nothing is stored: what a site keeps there may be lost at any time.
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    server = family.start("redis", [str(found.redis), *options])

    def is_listening() -> bool:
        assert server.process.poll() is None, server.output.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    until(is_listening, "Redis listens")
    return f"redis://127.0.0.1:{port}/0"
