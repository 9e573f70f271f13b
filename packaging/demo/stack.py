"""The demo's site and nodes: set up from nothing in a folder of their own, through the commands that people use."""

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
    """Whether a variable of the user's shell would change what the demo runs."""
    return name.lower().endswith("_proxy") or name.startswith(("MESHNET_", "DJANGO_"))


@dataclass(frozen=True)
class Paths:
    """What the demo needs from the build, and where the run keeps its own files."""

    root: Path
    run: Path
    model: Path
    library: Path
    worker: Path

    def check(self) -> None:
        """Raise DemoError naming the first missing part."""
        for part in (self.model, self.library, self.worker):
            if not part.exists():
                raise DemoError(f"{part.name} is missing: run `make demo`, which builds it")

    def environment(self) -> dict[str, str]:
        """What the children get: site data in the run's folder, our library, none of the user's settings or proxies.

        Routes are exact, since the text is compared with the whole model's.
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
    """A log-in for the person who runs the demo."""

    name: str
    password: str


@dataclass(frozen=True)
class Credentials:
    """What opens the demo's site."""

    api_key: str
    node_token: str
    user: Account
    admin: Account


@dataclass(frozen=True)
class RunningSite:
    """What clients and nodes need to know of the site."""

    url: str
    credentials: Credentials


@dataclass(frozen=True)
class ServingNode:
    """A node that serves, as its ready line names it."""

    name: str
    layers: str
    worker_pid: int


class Stack:
    """Starts the site, then the nodes. The family ends them."""

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
        """Database, accounts, key, token, catalog; what does not depend on each other runs side by side."""
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
        """Make the database, accounts, key and catalog entry, then serve on free ports."""
        self._step("site: database, accounts, catalog, golden probe of the model")
        credentials = self._set_up_site()
        command = [self._meshnet, "site", "serve", "--host", "127.0.0.1", "--port", "0"]
        command += ["--relay-port", "0"]
        ready = self._family.start("site", command).ready_line(SITE_DEADLINE_S)
        self._step(f"site: {ready['site']}   relay: {ready['relay']}")
        return RunningSite(ready["site"], credentials)

    def self_tests(self, nodes: Sequence[ServingNode]) -> dict[str, str]:
        """What each node says of its self test, by name, e.g. "passed".

        Raises:
            DemoError: a node does not answer.
        """
        verdicts = {}
        for node in nodes:
            address = json.loads((self._paths.run / node.name / "local_api.json").read_bytes())
            connection = HTTPConnection("127.0.0.1", urlsplit(address["url"]).port, timeout=STATUS_DEADLINE_S)
            try:
                connection.request("GET", "/status", headers={"Authorization": f"Bearer {address['token']}"})
                verdicts[node.name] = str(json.loads(connection.getresponse().read())["self_test"])
            except (OSError, HTTPException, ValueError, KeyError) as error:
                raise DemoError(f"{node.name} does not say how its self test went ({type(error).__name__})") from error
            finally:
                connection.close()
        return verdicts

    def start_nodes(
        self, site: RunningSite, ranges: Sequence[tuple[int, int] | None], options: Sequence[str] = ()
    ) -> list[ServingNode]:
        """Start one node a range (None: the whole model) and wait until all serve.

        Args:
            site: where they enrol.
            ranges: layers of each, half-open.
            options: further arguments of `meshnet node`, the same for all.
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
