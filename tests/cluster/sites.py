"""Two site processes on one database, one Redis and one relay, each with a node of its own.

Invariant: both are `Stack`s of one family of processes, with the same people, keys and models.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.cluster.servers import RunningServers
from tests.e2e.processes import Family, Program
from tests.e2e.stack import BINARIES, RUN_SITE, Stack
from tests.simulators.ports import free_port


@dataclass
class Sites:
    """Both processes by name, and the relay that they share."""

    servers: RunningServers
    a: Stack
    b: Stack
    relay: Program

    def named(self, name: str) -> Stack:
        return {"a": self.a, "b": self.b}[name]

    def until_idle(self) -> None:
        """Wait until no node of either site holds a session."""
        for site in (self.a, self.b):
            site.until_idle()


@contextmanager
def two_sites(folder: Path, servers: RunningServers, models: dict[str, Path]) -> Iterator[Sites]:
    """Make one site, and serve it with two processes."""
    relay_port = free_port()
    environment = {
        "MESHNET_SITE_DATA": str(folder / "site"),
        "MESHNET_METRICS_TOKEN": "metrics-of-this-run",
        "MESHNET_DATABASE_URL": servers.database_url,
        "MESHNET_REDIS_URL": servers.redis_url,
        "MESHNET_RELAY_URL": f"ws://127.0.0.1:{relay_port}",
        "MESHNET_LOG_LEVEL": "INFO",
        "LLAMA_CPP_LIB_PATH": str(BINARIES),
    }
    family = Family(folder, environment)
    try:
        a = Stack(folder, family, models)
        a.set_up()
        relay = family.start("relay", [*RUN_SITE, "relay", "--port", str(relay_port)])
        relay.ready()
        b = replace(a, nodes={})
        for site in (a, b):
            site.serve(relay_port=None)
        yield Sites(servers, a, b, relay)
    finally:
        family.stop()
