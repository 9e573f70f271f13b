"""What ends a node, or keeps it from starting, in one line each."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from meshnet.constants import WIRE_VERSION
from tests.integration.node_app.node_process import a_node
from tests.integration.node_app.site_under_test import GOOD_TOKEN, Site, a_site
from tests.simulators.fake_model import write_fake_model
from tests.simulators.faults import Faults
from tests.simulators.launcher import write_worker_program

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "http://127.0.0.1:9"


def last_words(log: list[str]) -> str:
    """The node's last line, which must be its own and not a traceback's."""
    assert not any("Traceback" in line for line in log), "\n".join(log)
    return next(line for line in reversed(log) if line.startswith("meshnet node: "))


def write_model_of_another_architecture(path: Path) -> Path:
    """The simulator knows the fake architecture alone, so that this one is refused at Load."""
    write_fake_model(path, n_layers=2, width=16, context_length=512)
    length = (4).to_bytes(8, "little")
    path.write_bytes(path.read_bytes().replace(b"fake.", b"okay.").replace(length + b"fake", length + b"okay"))
    return path


def write_sparse_model(folder: Path) -> Path:
    """The last layer's bytes are a hole; the file is as long as it should be."""
    whole = write_fake_model(folder / "whole.gguf", n_layers=4, width=64, context_length=512).read_bytes()
    sparse, hole_bytes = folder / "sparse.gguf", 8192  # half of a layer
    begin = (len(whole) - 64 * 64 * 4) // 4096 * 4096
    with sparse.open("wb") as file:
        file.write(whole[:begin])
        file.seek(begin + hole_bytes)
        file.write(whole[begin + hole_bytes :])
    return sparse


def wrong_files(folder: Path, model: Path) -> dict[str, Path]:
    text, cut = folder / "text.gguf", folder / "cut.gguf"
    text.write_text("no model")
    cut.write_bytes(model.read_bytes()[:-20])
    return {"model": model, "folder": folder, "text": text, "cut": cut, "sparse": write_sparse_model(folder)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gguf", "{model}", "--layers", "0:2"], "--site is missing"),
        (["--site", NOWHERE, "--gguf", "{model}", "--layers", "1:4", "--api-port", "8080"], "--api-port"),
        (["--site", "nonsense", "--gguf", "{model}"], "--site"),
        (["--site", NOWHERE, "--gguf", "{folder}/absent.gguf"], "no such file"),
        (["--site", NOWHERE, "--gguf", "{text}"], "is not a GGUF file"),
        (
            ["--site", NOWHERE, "--gguf", "{cut}"],
            "cut.gguf is shorter than its header promises: fetch it again [truncated]",
        ),
        (["--site", NOWHERE, "--gguf", "{sparse}"], "the file is sparse and lacks blk.2.weight (bytes "),
        (["--site", NOWHERE, "--gguf", "{model}", "--layers", "3:1"], "is no range of layers"),
        (["--site", NOWHERE, "--gguf", "{model}", "--layers", "2:9"], "the model has 4 layers"),
        (["--site", NOWHERE, "--gguf", "{model}", "--worker", "{folder}/absent"], "no program at"),
    ],
)
async def test_wrong_input_is_one_line_and_status_2(
    tmp_path: Path, fake_model: Path, simulated_worker: Path, arguments: list[str], said: str
) -> None:
    places = wrong_files(tmp_path, fake_model)
    given = [part.format(**places) for part in arguments]
    if "--worker" not in given:
        given += ["--worker", str(simulated_worker)]
    async with a_node(tmp_path / "state", *given) as node:
        assert await node.wait() == 2
    assert len(node.log) == 1
    assert said in last_words(node.log)


async def test_a_refused_token_is_final(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    async with a_site(Site("ws://127.0.0.1:9")) as site:
        given = ["--site", site.url, "--token", "wrong", "--gguf", str(fake_model), "--worker", str(simulated_worker)]
        async with a_node(tmp_path / "state", *given) as node:
            assert await node.wait() == 1
    assert "this token is not valid" in last_words(node.log)
    assert site.enrolments == 1


async def test_a_missing_token_is_said(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    given = ["--site", NOWHERE, "--gguf", str(fake_model), "--worker", str(simulated_worker)]
    async with a_node(tmp_path / "state", *given) as node:
        assert await node.wait() == 1
    assert "--token is missing (or MESHNET_TOKEN in the environment); make one at" in last_words(node.log)


async def test_a_site_of_another_version_is_said(
    tmp_path: Path, fake_model: Path, simulated_worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracker_site.control_plane.node_connection.WIRE_VERSION", WIRE_VERSION + 5)
    monkeypatch.setattr("tracker_site.control_plane.node_connection.WIRE_VERSION_MIN", WIRE_VERSION + 4)
    async with a_site(Site("ws://127.0.0.1:9")) as site:
        given = [
            "--site",
            site.url,
            "--token",
            GOOD_TOKEN,
            "--gguf",
            str(fake_model),
            "--worker",
            str(simulated_worker),
        ]
        async with a_node(tmp_path / "state", *given) as node:
            assert await node.wait() == 1
    assert "the site speaks wire versions 5 to 6" in last_words(node.log)


async def test_a_model_that_no_engine_serves_is_final(tmp_path: Path, simulated_worker: Path) -> None:
    # The simulator knows the fake architecture alone, so that any other file is refused at Load.
    model = write_fake_model(tmp_path / "other.gguf", n_layers=2, width=16, context_length=512)
    model.write_bytes(
        model.read_bytes().replace(b"fake.", b"okay.").replace(b"\x04\0\0\0\0\0\0\0fake", b"\x04\0\0\0\0\0\0\0okay")
    )
    async with a_site(Site("ws://127.0.0.1:9")) as site:
        given = ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(model), "--worker", str(simulated_worker)]
        async with a_node(tmp_path / "state", *given) as node:
            assert await node.wait() == 1
    assert "FakeEngine only" in last_words(node.log)


async def test_a_state_directory_serves_one_node(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    given = ["--site", NOWHERE, "--token", "t", "--gguf", str(fake_model), "--worker", str(simulated_worker)]
    async with a_node(tmp_path / "state", *given) as first:
        await first.worker_started()
        async with a_node(tmp_path / "state", *given) as second:
            assert await second.wait() == 1
        assert "another node already runs" in last_words(second.log)


async def test_a_worker_that_never_listens_is_tried_again_ever_more_slowly(tmp_path: Path, fake_model: Path) -> None:
    program = tmp_path / "broken-worker"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    async with a_site(Site("ws://127.0.0.1:9")) as site:
        given = ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(fake_model), "--worker", str(program)]
        async with a_node(tmp_path / "state", *given):
            report = await site.wait_for_state("node-0", "degraded")
            assert "signal SIGKILL" in report.reason


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", "(exit status 0): is it a meshnet-worker?"),
        ("echo 'meshnet-worker: no torch; make torch [missing_extra]' >&2; exit 1", "(exit status 1): no torch; make"),
    ],
)
async def test_a_program_that_will_never_be_a_worker_is_final(
    tmp_path: Path, fake_model: Path, script: str, said: str
) -> None:
    program = tmp_path / "no-worker"
    program.write_text(f"#!/bin/sh\necho >> {tmp_path}/starts\n{script}\n")
    program.chmod(0o755)
    given = ["--site", NOWHERE, "--token", "t", "--gguf", str(fake_model), "--worker", str(program)]
    async with a_node(tmp_path / "state", *given) as node:
        assert await node.wait() == 1
    assert said in last_words(node.log)
    assert (tmp_path / "starts").read_text() == "\n"


async def test_a_quit_is_status_0(tmp_path: Path, fake_model: Path, simulated_worker: Path) -> None:
    given = ["--site", NOWHERE, "--token", "t", "--gguf", str(fake_model), "--worker", str(simulated_worker)]
    async with a_node(tmp_path / "state", *given) as node:
        await node.worker_started()
        os.kill(node.process.pid, signal.SIGINT)
        assert await node.wait() == 0


async def test_an_engine_that_crashes_in_every_step_is_reported_and_not_routable(
    tmp_path: Path, fake_model: Path
) -> None:
    program = write_worker_program(tmp_path, Faults(), name="crashing")
    program.write_text(program.read_text().replace('"$@"', '"$@" & sleep 0.1; kill -9 $!; wait $!'))
    async with a_site(Site("ws://127.0.0.1:9")) as site:
        given = ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(fake_model), "--worker", str(program)]
        async with a_node(tmp_path / "state", *given):
            report = await site.wait_for_state("node-0", "degraded")
            assert report.shards == ()
