"""Sets up the demo's site and nodes in a new folder, with the same commands that people use."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from processes import DemoError, Errand, Family

MODEL_NAME = "smollm2-135m-instruct"
USER, ADMIN = "demo", "admin"
CREDITS = 100
COMMAND_DEADLINE_S = 60.0
SITE_DEADLINE_S = 30.0
NODE_DEADLINE_S = 60.0
STATUS_DEADLINE_S = 5.0


def _is_setting(name: str) -> bool:
    """Return whether an environment variable of the user would change the behaviour of the demo's programs."""
    return name.lower().endswith("_proxy") or name.startswith(("MESHNET_", "DJANGO_"))


@dataclass(frozen=True)
class Paths:
    """The checkout (`root`), the folder of this run, the model, libllama's folder and the worker program."""

    root: Path
    run: Path
    model: Path
    library: Path
    worker: Path

    def check(self) -> None:
        """Check that the build is complete.

        Raises:
            DemoError: an output of the build is missing.
        """
        for part in (self.model, self.library, self.worker):
            if not part.exists():
                raise DemoError(f"{part.name} is missing: run `make demo`, which builds it")

    def environment(self) -> dict[str, str]:
        """Return the environment of the child processes.

        It puts the site's data into the folder `run`, names the folder of our llama.cpp library, and leaves out the
        user's settings and proxies. Routes are bit-exact, because the answer is compared with the unsplit model's.
        """
        kept = {name: value for name, value in os.environ.items() if not _is_setting(name)}
        return kept | {
            "MESHNET_SITE_DATA": str(self.run / "site"),
            "MESHNET_EXACT_ROUTES": "1",
            "LLAMA_CPP_LIB_PATH": str(self.library),
            "PYTHONUNBUFFERED": "1",
        }


@dataclass(frozen=True)
class Account:
    """A name and password with which a person can sign in to the demo's site."""

    name: str
    password: str


@dataclass(frozen=True)
class Credentials:
    """Accounts, API key and node token of the demo's site."""

    api_key: str
    node_token: str
    user: Account
    admin: Account


@dataclass(frozen=True)
class RunningSite:
    """The site's URL and credentials, for clients and nodes."""

    url: str
    credentials: Credentials


@dataclass(frozen=True)
class ServingNode:
    """A node that serves: its name, its layers and the pid of its worker, as it printed them when it was ready."""

    name: str
    layers: str
    worker_pid: int


class Stack:
    """Starts the site, then the nodes. The `Family` owns their processes and ends them."""

    def __init__(self, family: Family, paths: Paths, step: Callable[[str], None]) -> None:
        self._family = family
        self._paths = paths
        self._step = step
        self._meshnet = str(Path(sys.executable).with_name("meshnet"))

    def _begin(self, *arguments: str) -> Errand:
        return self._family.begin([self._meshnet, "site", *arguments, "--json"])

    def _done(self, *arguments: str) -> dict[str, Any]:
        return self._begin(*arguments).result(COMMAND_DEADLINE_S)

    def _begin_probe(self, golden: Path) -> Errand:
        command = [self._meshnet, "probe", str(self._paths.model), "--output", str(golden)]
        return self._family.begin([*command, "--worker", str(self._paths.worker), "--json"])

    def _set_up_site(self) -> Credentials:
        """Create the database, accounts, API key, node token and catalog entry, some of them in parallel."""
        golden = self._paths.run / "golden.safetensors"
        probe = self._begin_probe(golden)
        self._done("migrate")
        model = self._begin("import-model", str(self._paths.model), "--name", MODEL_NAME)
        admin = self._begin("create-user", ADMIN, "--admin")
        user = Account(USER, self._done("create-user", USER)["password"])
        grant = self._begin("grant", USER, str(CREDITS))
        key = self._begin("create-key", USER, "--name", "demo")
        token = self._done("create-node-token", USER, "--name", "demo")["token"]
        for errand in (grant, model, probe):
            errand.result(COMMAND_DEADLINE_S)
        self._done("import-golden", MODEL_NAME, str(golden))
        return Credentials(
            api_key=key.result(COMMAND_DEADLINE_S)["key"],
            node_token=token,
            user=user,
            admin=Account(ADMIN, admin.result(COMMAND_DEADLINE_S)["password"]),
        )

    def start_site(self) -> RunningSite:
        """Set up the site, then start it on free ports and wait until it serves.

        Raises:
            DemoError: a command failed, or the site was not ready in time.
        """
        self._step("site: database, accounts, catalog, golden probe of the model")
        credentials = self._set_up_site()
        command = [self._meshnet, "site", "serve", "--host", "127.0.0.1", "--port", "0"]
        command += ["--relay-port", "0"]
        ready = self._family.start("site", command).ready_line(SITE_DEADLINE_S)
        self._step(f"site: {ready['site']}   relay: {ready['relay']}")
        return RunningSite(ready["site"], credentials)

    def self_tests(self, nodes: Sequence[ServingNode]) -> dict[str, str]:
        """Return the result of each node's self test by the node's name, for example "passed".

        Raises:
            DemoError: a node's status cannot be read.
        """
        verdicts = {}
        for node in nodes:
            address = json.loads((self._paths.run / node.name / "local_api.json").read_bytes())
            connection = HTTPConnection("127.0.0.1", urlsplit(address["url"]).port, timeout=STATUS_DEADLINE_S)
            try:
                connection.request("GET", "/status", headers={"Authorization": f"Bearer {address['token']}"})
                verdicts[node.name] = str(json.loads(connection.getresponse().read())["self_test"])
            except (OSError, HTTPException, ValueError, KeyError) as error:
                raise DemoError(f"the status of {node.name} cannot be read ({type(error).__name__})") from error
            finally:
                connection.close()
        return verdicts

    def start_nodes(
        self, site: RunningSite, ranges: Sequence[tuple[int, int] | None], options: Sequence[str] = ()
    ) -> list[ServingNode]:
        """Start one node for each range of layers and wait until all serve.

        Args:
            site: the site that they enrol at.
            ranges: half-open ranges of layers; None stands for the whole model.
            options: further arguments of `meshnet node`, the same for all nodes.

        Raises:
            DemoError: a node ended, or was not ready in time.
        """
        threads = str(max(1, len(os.sched_getaffinity(0))))
        children = []
        for index, layers in enumerate(ranges):
            name = f"node-{'ab'[index] if index < 2 else index}"
            command = [self._meshnet, "node", "--site", site.url, "--token", site.credentials.node_token]
            command += ["--gguf", str(self._paths.model), "--name", name, "--threads", threads]
            command += ["--worker", str(self._paths.worker), "--state-dir", str(self._paths.run / name)]
            command += options
            if layers is not None:
                command += ["--layers", f"{layers[0]}:{layers[1]}"]
            children.append(self._family.start(name, command))
        lines = [child.ready_line(NODE_DEADLINE_S) for child in children]
        nodes = [ServingNode(line["name"], line["layers"], line["worker_pid"]) for line in lines]
        for node in nodes:
            self._step(f"node: {node.name} serves layers {node.layers}")
        return nodes
