"""A whole stack on loopback: site and relay, node agents, native workers, TLS between them; and how to look at it.

Invariants: set up through the commands that people use; one site serves several models at once, so that one start pays
for routes over several carriers; nodes are killed and started again by name and keep their state directories.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from tests.e2e.answers import Client
from tests.e2e.processes import DEADLINE_S, Family, Program, children_of, descriptors_of, until
from tests.e2e.worker_status import worker_status

ROOT = Path(__file__).resolve().parents[2]
BINARIES = ROOT / "build/native/cpu/bin"
RUN_SITE = [sys.executable, "-c", "import sys; from tracker_site.commands import main; sys.exit(main(sys.argv[1:]))"]
RUN_NODE = [sys.executable, "-c", "import sys; from node_app.main import main; sys.exit(main(sys.argv[1:]))"]
USER, OWNER = "alice", "olga"
CREDITS = 100_000
# Whole credits per million tokens, so that every token costs so many micro-credits.
PROMPT_MICROS, COMPLETION_MICROS = 3, 7


@dataclass(frozen=True)
class NodePlan:
    """One node to start: a name, a model of the site, a range and further options of `meshnet node`."""

    name: str
    model: str
    layers: str
    options: tuple[str, ...] = ()


@dataclass
class RunningNode:
    """A node by name, through all its lives."""

    plan: NodePlan
    program: Program
    starts: int = 1

    @property
    def worker_pid(self) -> int:
        return int(self.program.ready_lines()[-1]["worker_pid"])

    def strike_worker(self, number: signal.Signals) -> None:
        """Send its present worker a signal; `next_ready` waits for a start after this."""
        self.starts = len(self.program.ready_lines())
        os.kill(self.worker_pid, number)

    def next_ready(self) -> dict[str, Any]:
        """Wait until the present agent serves (again)."""
        self.starts += 1
        return self.program.ready(self.starts)


@dataclass
class Stack:
    """The running stack. Owned by the test that made it."""

    folder: Path
    family: Family
    models: dict[str, Path]
    site: Program | None = None
    site_url: str = ""
    relay_url: str = ""
    api_key: str = ""
    metrics_token: str = "metrics-of-this-run"
    nodes: dict[str, RunningNode] = field(default_factory=dict)
    passwords: dict[str, str] = field(default_factory=dict)
    _node_token: str = ""

    def command(self, *arguments: str) -> dict[str, Any]:
        """Run one `meshnet site` command."""
        return self.family.run([*RUN_SITE, *arguments, "--json"])

    def set_up(self) -> None:
        """Database, people and models, in an empty folder."""
        self.command("migrate")
        for user in (USER, OWNER):
            self.create_user(user)
        self.command("grant", USER, str(CREDITS))
        self.api_key = self.command("create-key", USER)["key"]
        self._node_token = self.command("create-node-token", OWNER)["token"]
        for name, path in self.models.items():
            prices = ["--prompt-price", str(PROMPT_MICROS), "--completion-price", str(COMPLETION_MICROS)]
            self.command("import-model", str(path), "--name", name, *prices)

    def create_user(self, name: str, *options: str) -> None:
        """Make somebody who can sign in; `passwords` knows with what."""
        self.passwords[name] = self.command("create-user", name, *options)["password"]

    def serve(self, port: int = 0, relay_port: int | None = 0) -> None:
        """Start site and relay, on free ports if none are given; no relay if `relay_port` is None."""
        command = [*RUN_SITE, "serve", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--no-relay"] if relay_port is None else ["--relay-port", str(relay_port)]
        self.site = self.family.start("site", command)
        ready = self.site.ready()
        self.site_url, self.relay_url = ready["site"], ready["relay"]

    def serve_again(self) -> None:
        """Start the site again where it was."""
        self.serve(_port(self.site_url), _port(self.relay_url))

    def launch(self, plan: NodePlan) -> RunningNode:
        """Start an agent; `node.program.ready()` tells when it serves."""
        command = [*RUN_NODE, "--site", self.site_url, "--token", self._node_token, "--name", plan.name]
        command += ["--gguf", str(self.models[plan.model]), "--layers", plan.layers, "--threads", "1"]
        command += ["--max-sessions", "8"]
        command += ["--worker", str(BINARIES / "meshnet-worker"), "--state-dir", str(self.folder / plan.name)]
        program = self.family.start(plan.name, [*command, *plan.options])
        self.nodes[plan.name] = RunningNode(plan, program)
        return self.nodes[plan.name]

    def launch_all(self, plans: Sequence[NodePlan]) -> None:
        """Start agents and wait until all serve."""
        for node in [self.launch(plan) for plan in plans]:
            node.program.ready()

    def relaunch(self, name: str) -> None:
        """Start an agent that was killed again, and wait until it serves."""
        self.launch(self.nodes[name].plan).program.ready()

    @property
    def client(self) -> Client:
        return Client(self.site_url, self.api_key)

    @property
    def site_pid(self) -> int:
        assert self.site is not None
        return self.site.pid

    @property
    def relay_pid(self) -> int:
        (relay,) = children_of(self.site_pid)
        return relay.pid

    # --- looking at it ---

    def metrics(self) -> dict[str, Any]:
        answer = requests.get(
            f"{self.site_url}/metrics.json",
            headers={"Authorization": f"Bearer {self.metrics_token}"},
            timeout=DEADLINE_S,
        )
        figures: dict[str, Any] = answer.json()
        return figures

    def agent_status(self, name: str) -> dict[str, Any]:
        """What a node's own status endpoint says."""
        address = json.loads((self.folder / name / "local_api.json").read_bytes())
        headers = {"Authorization": f"Bearer {address['token']}"}
        answer = requests.get(f"{address['url']}/status", headers=headers, timeout=DEADLINE_S)
        status: dict[str, Any] = answer.json()
        return status

    def busy_nodes(self, names: Sequence[str]) -> dict[str, tuple[int, int, int]]:
        """Nodes that hold something: sessions of the agent, sessions and reserved KV cells of the worker."""
        held = {}
        for name in names:
            status = worker_status(self.nodes[name].worker_pid)
            figures = (int(self.agent_status(name)["sessions"]), len(status.sessions), int(status.kv_cells_reserved))
            if any(figures):
                held[name] = figures
        return held

    def until_idle(self, names: Sequence[str] | None = None, deadline_s: float = DEADLINE_S) -> None:
        """Wait until agents and workers hold no session and no KV cell."""
        wanted = list(self.nodes) if names is None else list(names)
        until(lambda: not self.busy_nodes(wanted), f"{wanted} hold nothing", deadline_s)

    def pids(self) -> dict[str, int]:
        """Every process of the stack, by what it is."""
        found = {"site": self.site_pid, "relay": self.relay_pid}
        for name, node in self.nodes.items():
            found |= {f"{name} agent": node.program.pid, f"{name} worker": node.worker_pid}
        return found

    def descriptors(self) -> dict[str, int]:
        return {name: descriptors_of(pid) for name, pid in self.pids().items()}

    def audit(self) -> dict[str, Any]:
        return self.command("audit")

    def assert_settled(self) -> dict[str, Any]:
        """Wait until no hold is open; then the ledger must be sound and sum to zero."""
        until(lambda: self.metrics()["holds_open"] == 0, "no hold is open")
        audit = self.audit()
        assert (audit["problems"], audit["balance_sum_micros"], audit["open_holds"]) == ([], 0, 0)
        assert audit["transfers"] > 0  # the control: there was something to sum
        return audit


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


@contextmanager
def a_stack(folder: Path, models: dict[str, Path], *, is_exact: bool = False) -> Iterator[Stack]:
    """A set-up site that serves, without nodes; everything is ended, and nothing may be left.

    `is_exact`: its routes promise the bits of the unsplit model.
    """
    environment = {"MESHNET_SITE_DATA": str(folder / "site"), "MESHNET_METRICS_TOKEN": "metrics-of-this-run"}
    environment |= {"LLAMA_CPP_LIB_PATH": str(BINARIES), "MESHNET_LOG_LEVEL": "INFO"}
    environment |= {"MESHNET_EXACT_ROUTES": str(int(is_exact))}
    family = Family(folder, environment)
    stack = Stack(folder, family, models)
    try:
        stack.set_up()
        stack.serve()
        yield stack
    finally:
        family.stop()
        left = []
        try:
            until(lambda: not list(family.marked_processes()), "nothing is left")
        finally:
            left = list(family.marked_processes())
            for pid in left:
                os.kill(pid, signal.SIGKILL)
    assert left == []
