"""One worker's life with real processes, deadlines shortened."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meshnet.errors import WorkerError
from meshnet.v1 import worker_pb2
from node_app.worker.health import HealthLimits
from node_app.worker.line_budget import BURST_LINES
from node_app.worker.process import WorkerCommand, find_worker_program, worker_environment
from node_app.worker.restart import EndCause
from node_app.worker.supervisor import WorkerSupervisor
from tests.integration.node_app.node_process import is_gone, poll_until
from tests.simulators.faults import Faults
from tests.simulators.launcher import write_worker_program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from node_app.worker.client import ProbeResult

QUICK = HealthLimits(status_interval_s=0.1, silence_s=1.0, probe_interval_s=0.3, probe_deadline_s=0.5, step_s=1.0)
DEADLINE_S = 15.0
LOAD = worker_pb2.LoadRequest(
    engine=worker_pb2.ENGINE_KIND_FAKE,
    fake=worker_pb2.FakeModel(n_layers=2, width=16),
    context_length=128,
    kv_cells=256,
    max_sessions=2,
)


def ignore(_: object) -> None:
    """A listener for tests that do not look."""


def no_local_links() -> None:
    """There is one worker: it has nobody to meet."""


@asynccontextmanager
async def a_supervisor(
    tmp_path: Path, faults: Faults | None = None, limits: HealthLimits = QUICK
) -> AsyncIterator[WorkerSupervisor]:
    program = write_worker_program(tmp_path, faults)
    supervisor = WorkerSupervisor(WorkerCommand(program, tmp_path / "w.sock", "", no_local_links), limits)
    try:
        yield supervisor
    finally:
        await supervisor.end()


async def test_a_worker_starts_describes_itself_and_ends(tmp_path: Path) -> None:
    async with a_supervisor(tmp_path) as supervisor:
        running = await supervisor.start()
        assert "simulator" in running.description.version_json
        pid = running.process.pid
        await supervisor.end()
        await supervisor.end()
        assert supervisor.running is None
    assert is_gone(pid)


async def test_a_new_start_ends_the_worker_before(tmp_path: Path) -> None:
    async with a_supervisor(tmp_path) as supervisor:
        first = (await supervisor.start()).process.pid
        second = (await supervisor.start()).process.pid
        assert is_gone(first)
        assert not is_gone(second)


@pytest.mark.parametrize(
    ("number", "cause", "said"),
    [
        (signal.SIGKILL, EndCause.EXITED, "signal SIGKILL"),
        (signal.SIGSTOP, EndCause.STALLED, "the worker sent no status"),
    ],
)
async def test_a_worker_that_is_killed_or_stopped_is_found_and_gone(
    tmp_path: Path, number: signal.Signals, cause: EndCause, said: str
) -> None:
    async with a_supervisor(tmp_path) as supervisor:
        running = await supervisor.start()
        await running.client.load(LOAD, DEADLINE_S)
        watching = asyncio.create_task(supervisor.watch(ignore, ignore))
        os.kill(running.process.pid, number)
        end = await asyncio.wait_for(watching, DEADLINE_S)
        assert end.cause is cause
        assert said in end.message
        assert is_gone(running.process.pid)
        assert supervisor.running is None


async def test_an_idle_worker_is_probed_through_the_engine_and_stays(tmp_path: Path) -> None:
    async with a_supervisor(tmp_path) as supervisor:
        running = await supervisor.start()
        await running.client.load(LOAD, DEADLINE_S)
        steps: list[int] = []
        probes: list[ProbeResult] = []
        watching = asyncio.create_task(supervisor.watch(lambda status: steps.append(status.steps), probes.append))
        await poll_until(lambda: len(probes) >= 3, DEADLINE_S)
        assert steps[-1] >= 3
        assert len({probe.output_digest for probe in probes}) == 1
        assert not watching.done()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert supervisor.running is None


async def test_a_worker_that_answers_but_computes_too_slowly_fails_its_probe(tmp_path: Path) -> None:
    async with a_supervisor(tmp_path, Faults(step_delay_ms=3000), HealthLimits(0.1, 5.0, 0.2, 0.5, 60.0)) as supervisor:
        running = await supervisor.start()
        await running.client.load(LOAD, DEADLINE_S)
        end = await asyncio.wait_for(supervisor.watch(ignore, ignore), DEADLINE_S)
        assert end.cause is EndCause.PROBE_FAILED
        assert end.code == "worker_timeout"


async def test_a_worker_whose_step_does_not_end_is_stalled(tmp_path: Path) -> None:
    async with a_supervisor(tmp_path, Faults(step_delay_ms=5000), HealthLimits(0.1, 5.0, 0.2, 9.0, 0.5)) as supervisor:
        running = await supervisor.start()
        await running.client.load(LOAD, DEADLINE_S)
        end = await asyncio.wait_for(supervisor.watch(ignore, ignore), DEADLINE_S)
        assert (end.cause, end.code) == (EndCause.STALLED, "worker_stalled")


async def test_a_worker_with_nothing_loaded_fails_its_probe(tmp_path: Path) -> None:
    async with a_supervisor(tmp_path) as supervisor:
        await supervisor.start()
        end = await asyncio.wait_for(supervisor.watch(ignore, ignore), DEADLINE_S)
        assert (end.cause, end.code) == (EndCause.PROBE_FAILED, "not_ready")


async def test_a_condemned_worker_is_ended_with_the_reason(tmp_path: Path) -> None:
    async with a_supervisor(tmp_path) as supervisor:
        running = await supervisor.start()
        watching = asyncio.create_task(supervisor.watch(ignore, ignore))
        supervisor.condemn(EndCause.BRIDGE_LOST, "the bridge broke")
        end = await asyncio.wait_for(watching, DEADLINE_S)
        assert (end.cause, end.message) == (EndCause.BRIDGE_LOST, "the bridge broke")
        assert is_gone(running.process.pid)
        await supervisor.start()  # the next life is not condemned
        watching = asyncio.create_task(supervisor.watch(ignore, ignore))
        done, _ = await asyncio.wait({watching}, timeout=0.2)
        assert not done
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("exit 9", "worker_unusable", "(exit status 9): is it a meshnet-worker?"),
        ("exit 0", "worker_unusable", "(exit status 0): is it a meshnet-worker?"),
        ("echo 'meshnet-worker: an option' >&2; exit 2", "worker_unusable", "(exit status 2): an option"),
        ("echo 'meshnet-worker: cannot listen' >&2; exit 1", "worker_not_ready", "(exit status 1): cannot listen"),
        ("kill -9 $$", "worker_not_ready", "(signal SIGKILL)"),
        ("sh -c 'kill -9 $$'; exit $?", "worker_not_ready", "(exit status 137)"),
        ("echo hello; sleep 60", "worker_not_ready", "not a ready line"),
        ("echo '{\"ready\": false}'; sleep 60", "worker_not_ready", "not a ready line"),
        ("head -c 100000 /dev/zero | tr '\\0' x; echo; sleep 60", "worker_not_ready", "too long"),
    ],
)
async def test_a_program_that_is_no_worker_is_told_and_ended(tmp_path: Path, script: str, code: str, said: str) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{script}\n")
    program.chmod(0o755)
    supervisor = WorkerSupervisor(WorkerCommand(program, tmp_path / "w.sock", "", no_local_links), QUICK)
    with pytest.raises(WorkerError) as caught:
        await supervisor.start()
    assert caught.value.code == code
    assert said in caught.value.message
    assert is_gone(int((tmp_path / "pid").read_text()))


async def test_a_program_that_prints_without_end_fills_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nseq 20000 >&2\nexit 9\n")
    program.chmod(0o755)
    supervisor = WorkerSupervisor(WorkerCommand(program, tmp_path / "w.sock", "", no_local_links), QUICK)
    with pytest.raises(WorkerError, match="exit status 9"):  # all was read, or it would not have ended
        await supervisor.start()
    shown = [record for record in caplog.records if record.name == "node_app.worker.process"]
    assert BURST_LINES <= len(shown) <= BURST_LINES + 4 * DEADLINE_S


@pytest.mark.parametrize("closing", ["", ">&-"], ids=["silent", "closes its output and goes on"])
async def test_a_silent_program_is_given_up_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closing: str
) -> None:
    monkeypatch.setattr("node_app.worker.supervisor.START_TIMEOUT_S", 0.3)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nexec sleep 60 {closing}\n")
    program.chmod(0o755)
    supervisor = WorkerSupervisor(WorkerCommand(program, tmp_path / "w.sock", "", no_local_links), QUICK)
    with pytest.raises(WorkerError, match=r"the worker was not ready within 0\.3 s"):
        await supervisor.start()


async def test_refusals_of_the_worker_come_with_their_codes(tmp_path: Path) -> None:
    async with a_supervisor(tmp_path) as supervisor:
        client = (await supervisor.start()).client
        with pytest.raises(WorkerError) as caught:
            await client.load(worker_pb2.LoadRequest(engine=worker_pb2.ENGINE_KIND_LLAMA), DEADLINE_S)
        assert caught.value.code == "unsupported_architecture"
        with pytest.raises(WorkerError) as caught:
            await client.probe(1, DEADLINE_S)
        assert caught.value.code == "not_ready"


def test_the_worker_sees_no_variable_of_ours() -> None:
    seen = worker_environment({"PATH": "/bin", "MESHNET_TOKEN": "secret"})
    assert seen == {"PATH": "/bin", "GGML_NO_BACKTRACE": "1"}


def test_a_worker_program_must_be_one(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    with pytest.raises(WorkerError, match="worker_missing"):
        find_worker_program(plain)
    plain.chmod(0o755)
    assert find_worker_program(plain) == plain.resolve()
