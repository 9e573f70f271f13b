"""A node proves its shard before it offers it; a wrong one is never offered, and says so."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

from meshnet.artifact.gguf import artifact_digest, read_header
from meshnet.golden.probe import parse_golden
from node_app.artifacts.digest_cache import DigestCache
from node_app.system.state_files import prepare_directory
from tests.integration.node_app.node_process import READY_TIMEOUT_S, Node, a_node, poll_until
from tests.integration.node_app.site_under_test import GOOD_TOKEN, Site, a_site
from tests.integration.tracker_site.relay.process import a_relay
from tests.simulators.faults import Faults
from tests.simulators.launcher import write_worker_program
from tests.simulators.tiny_models import TINY_MODELS, tiny_model
from tests.unit.meshnet.golden.goldens import fake_golden

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from meshnet.golden.probe import GoldenProbe
    from tracker_site.nodes.reports import Report

N_LAYERS, WIDTH = 4, 16
RUN_PROBE = "import sys; from node_app.golden_maker.main import main; sys.exit(main(sys.argv[1:]))"
# A node that started its worker again at once would have done so within this time.
QUIET_S = 2.0
KILLS = 2
# Its two steps take 600 ms each.
IN_THE_TEST_S = 0.3


@dataclass(frozen=True)
class Running:
    """A node at a site; `reports` are all that it sent."""

    site: Site
    node: Node
    state_dir: Path
    reports: list[Report]

    async def until(self, state: str) -> Report:
        return await self.site.wait_for_state("node-0", state)

    def status(self) -> dict[str, object]:
        address = json.loads((self.state_dir / "local_api.json").read_bytes())
        headers = {"Authorization": f"Bearer {address['token']}"}
        answer = requests.get(f"{address['url']}/status", headers=headers, timeout=10)
        status: dict[str, object] = answer.json()
        return status

    def starts(self) -> int:
        return sum("worker" in line and " started" in line for line in self.node.log)


@asynccontextmanager
async def a_node_at_a_site(
    folder: Path, model: Path, worker: Path, golden: GoldenProbe | None, *more: str, status: int = 200
) -> AsyncIterator[Running]:
    state_dir = folder / "state"
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(a_relay())
        site = Site(relay.url, golden=golden, golden_status=status)
        await stack.enter_async_context(a_site(site))
        reports: list[Report] = []
        watching = asyncio.create_task(_note_reports(site, reports))
        stack.callback(watching.cancel)
        given = ["--site", site.url, "--token", GOOD_TOKEN, "--gguf", str(model), "--worker", str(worker), *more]
        node = await stack.enter_async_context(a_node(state_dir, *given))
        yield Running(site, node, state_dir, reports)


async def _note_reports(site: Site, reports: list[Report]) -> None:
    while True:
        async with site.changed:
            await site.changed.wait()
        report = site.report_of("node-0")
        if report is not None and (not reports or reports[-1] is not report):
            reports.append(report)


def golden_of(model: Path) -> GoldenProbe:
    return fake_golden(N_LAYERS, WIDTH, artifact_digest([model]))


@pytest.mark.parametrize("layers", ["0:4", "0:2", "1:3", "2:4"])
async def test_a_good_shard_is_proven_and_offered(tmp_path: Path, fake_model: Path, worker: Path, layers: str) -> None:
    golden = golden_of(fake_model)
    async with a_node_at_a_site(tmp_path, fake_model, worker, golden, "--layers", layers) as running:
        report = await running.until("serving")
        assert len(report.shards) == 1
        status = await asyncio.to_thread(running.status)
    assert (status["self_test"], status["state"]) == ("passed", "serving")
    assert str(status["self_test_words"]).count("8 of 8 rows near") == 2
    assert len(running.site.golden_asked) == 1


async def test_without_a_golden_probe_it_serves_and_says_that_nothing_was_tested(
    tmp_path: Path, fake_model: Path, worker: Path
) -> None:
    async with a_node_at_a_site(tmp_path, fake_model, worker, None) as running:
        assert len((await running.until("serving")).shards) == 1
        status = await asyncio.to_thread(running.status)
    assert status["self_test"] == "absent"
    assert "not self-tested" in str(status["self_test_words"])


@pytest.mark.parametrize("layers", ["0:4", "1:3"])
@pytest.mark.parametrize("how", ["rows", "nan", "half", "width"])
async def test_a_worker_that_gives_garbage_is_never_offered(
    tmp_path: Path, fake_model: Path, how: str, layers: str
) -> None:
    program = write_worker_program(tmp_path, Faults(wrong_probe=how))
    async with a_node_at_a_site(tmp_path, fake_model, program, golden_of(fake_model), "--layers", layers) as running:
        report = await running.until("self_test_failed")
        assert "self test failed" in report.reason
        await asyncio.sleep(QUIET_S)
        status = await asyncio.to_thread(running.status)
        assert running.starts() == 1  # no loop: the next start is minutes away
        assert running.node.worker_pids() == []
    assert [status[key] for key in ("state", "self_test", "worker_pid")] == ["self_test_failed", "failed", 0]
    offered = sum(len(one.shards) for one in running.reports)
    print(f"reports: {len(running.reports)}, shards offered in them: {offered}; {report.reason}")
    assert running.reports
    assert offered == 0


async def test_golden_rows_of_other_weights_fail(tmp_path: Path, fake_model: Path, worker: Path) -> None:
    other = replace(fake_golden(N_LAYERS, WIDTH), artifact_digest=artifact_digest([fake_model]))
    wrong = replace(other, hidden=dict(zip(other.hidden, reversed(other.hidden.values()), strict=True)))
    async with a_node_at_a_site(tmp_path, fake_model, worker, wrong, "--layers", "0:1") as running:
        report = await running.until("self_test_failed")
    assert report.shards == ()


async def test_a_site_that_cannot_answer_is_asked_again_and_nothing_is_offered_meanwhile(
    tmp_path: Path, fake_model: Path, worker: Path
) -> None:
    async with a_node_at_a_site(tmp_path, fake_model, worker, golden_of(fake_model), status=503) as running:
        await running.site.wait_until(lambda: any("put off" in one.reason for one in running.reports))
        running.site.golden_status = 200
        report = await running.until("serving")
        assert len(report.shards) == 1
        assert len(running.site.golden_asked) >= 2
        assert (await asyncio.to_thread(running.status))["self_test"] == "passed"
    seen = {(one.state, len(one.shards)) for one in running.reports}
    assert seen <= {("loading", 0), ("serving", 1)}


async def test_a_wrong_shard_that_was_tested_late_is_taken_back(tmp_path: Path, fake_model: Path) -> None:
    """The machine's own programs may use it while the site cannot be asked; once it can, its worker is ended."""
    program = write_worker_program(tmp_path, Faults(wrong_probe="rows"))
    golden = golden_of(fake_model)
    async with a_node_at_a_site(tmp_path, fake_model, program, golden, status=503) as running:
        await poll_until(lambda: any("put off" in line for line in running.node.log), READY_TIMEOUT_S)
        running.site.golden_status = 200
        report = await running.until("self_test_failed")
        status = await asyncio.to_thread(running.status)
        await poll_until(lambda: running.node.worker_pids() == [], READY_TIMEOUT_S)
    assert (report.shards, status["state"]) == ((), "self_test_failed")
    assert sum(len(one.shards) for one in running.reports) == 0


async def test_a_worker_that_is_killed_in_its_self_test_is_not_judged_and_the_next_one_is(
    tmp_path: Path, fake_model: Path
) -> None:
    program = write_worker_program(tmp_path, Faults(step_delay_ms=600))
    async with a_node_at_a_site(tmp_path, fake_model, program, golden_of(fake_model)) as running:
        for kills in range(1, KILLS + 1):
            await poll_until(lambda kills=kills: loads(running) == kills, READY_TIMEOUT_S)  # type: ignore[misc]
            await asyncio.sleep(IN_THE_TEST_S)
            assert not any("self test passed" in line for line in running.node.log)
            for pid in running.node.worker_pids():
                os.kill(pid, signal.SIGKILL)
        report = await running.until("serving")
        status = await asyncio.to_thread(running.status)
    assert (len(report.shards), status["self_test"], running.starts()) == (1, "passed", KILLS + 1)
    seen = {(one.state, len(one.shards)) for one in running.reports}
    print(f"workers killed: {KILLS}, reports: {len(running.reports)}, states: {sorted(seen)}")
    assert "self_test_failed" not in {state for state, _ in seen}
    assert {shards for state, shards in seen if state != "serving"} == {0}


def loads(running: Running) -> int:
    return sum("loaded:" in line for line in running.node.log)


# The real engine


@pytest.fixture
def tiny_llama(tmp_path: Path) -> Path:
    """A copy, to be spoiled."""
    (spec,) = (one for one in TINY_MODELS if one.architecture == "llama")
    return shutil.copy(tiny_model(spec, tmp_path), tmp_path / "model.gguf")


def spoil_tensor(model: Path, name: str) -> int:
    """Overwrite one tensor with the bytes of its other end; size, time and place stay as they were."""
    before = model.stat()
    (tensor,) = (one for one in read_header(model).tensors if one.name == name)
    with model.open("r+b") as file:
        file.seek(tensor.offset_bytes)
        data = file.read(tensor.size_bytes)
        file.seek(tensor.offset_bytes)
        file.write(data[::-1] if "norm" in name else data[len(data) // 2 :] + data[: len(data) // 2])
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    return tensor.size_bytes


def probe(model: Path, golden: Path, worker: Path) -> dict[str, object]:
    """What `meshnet probe` printed."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_PROBE, str(model), "-o", str(golden), "--worker", str(worker), "--json"],
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    made: dict[str, object] = json.loads(done.stdout)
    return made


@pytest.mark.native
async def test_a_weight_that_was_spoiled_after_it_was_hashed_is_found(
    tmp_path: Path, tiny_llama: Path, worker_program: Path
) -> None:
    golden_file = tmp_path / "golden.safetensors"
    made = await asyncio.to_thread(probe, tiny_llama, golden_file, worker_program)
    assert (made["rows"], made["cuts"], made["compared"], made["backend"]) == (8, 3, 32, "cpu")
    golden = parse_golden(golden_file.read_bytes())
    assert golden.artifact_digest == artifact_digest([tiny_llama])
    # The digest of the whole file is in the cache, so that the node believes it.
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    for folder in ("good", "bad"):
        DigestCache(prepare_directory(tmp_path / folder / "state")).artifact_digest([tiny_llama])
    async with a_node_at_a_site(tmp_path / "good", tiny_llama, worker_program, golden, "--layers", "1:3") as running:
        assert len((await running.until("serving")).shards) == 1
    size_bytes = spoil_tensor(tiny_llama, "blk.2.ffn_down.weight")
    async with a_node_at_a_site(tmp_path / "bad", tiny_llama, worker_program, golden, "--layers", "1:3") as running:
        report = await running.until("self_test_failed")
    offered = sum(len(one.shards) for one in running.reports)
    print(f"spoiled {size_bytes} bytes; reports: {len(running.reports)}, shards offered in them: {offered}")
    assert (report.shards, offered) == ((), 0)
