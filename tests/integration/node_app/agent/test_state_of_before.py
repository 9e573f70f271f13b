"""A state folder that an earlier version wrote is used as it is: the same key, the same id at its site, the same cache.

The files below are those of a node as it was before the modules of `node_app` moved into today's folders. The key is
this test's alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from node_app.site.identity import IdentityStore
from node_app.status.local_address import read_address
from node_app.system.state_files import StateError
from tests.integration.node_app.node_process import a_node

KEY = bytes.fromhex("681937b4a81ad1d22e4a63c6e91c36b056f96294dbffffa0fbc5fe303de5afce")
PUBLIC_KEY = "00e7c33d6cb52e1c6dc79bac27848d2b158616574a3e2d39962f62f31334ea91"
SITE, NODE_ID = "http://127.0.0.1:8711", "037512a5-fc35-40eb-8994-f92311884fb6"
DIGESTS = {"/models/a.gguf|98362432|1796085812505453014|5318878": "b179c952" * 8}
FILES = {
    "install.key": KEY,
    "sites.json": json.dumps({SITE: NODE_ID}, indent=1).encode(),
    "digests.json": json.dumps(DIGESTS, indent=1).encode(),
    # Of an agent that was killed.
    "local_api.json": json.dumps({"url": "http://127.0.0.1:1", "token": "x" * 43, "pid": 2**30}).encode(),
    "lock": b"",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    (folder / "run").mkdir(parents=True, mode=0o700)
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
    return folder


def test_the_node_is_known_as_before(folder: Path) -> None:
    identity = IdentityStore(folder)
    assert identity.signing_key().public_key.hex() == PUBLIC_KEY
    assert identity.node_id(SITE) == NODE_ID


def test_a_key_that_is_cut_off_is_noticed(folder: Path) -> None:
    (folder / "install.key").write_bytes(KEY[:-1])
    with pytest.raises(StateError):
        IdentityStore(folder).signing_key()


async def test_a_node_starts_on_it_and_keeps_it(folder: Path, fake_model: Path, worker: Path) -> None:
    async with a_node(folder, "--gguf", str(fake_model), "--worker", str(worker)) as node:
        ready = await node.ready_line()
        assert ready["ready"] is True
        address = read_address(folder)
        assert address is not None
        assert address.pid == node.process.pid
        assert not any("damaged" in line for line in node.log)
    assert read_address(folder) is None
    assert {name: (folder / name).read_bytes() for name in ("install.key", "sites.json")} == {
        name: FILES[name] for name in ("install.key", "sites.json")
    }
    digests = json.loads((folder / "digests.json").read_bytes())
    assert digests.items() > DIGESTS.items()
