"""Without PyTorch the worker says in one line what is missing; agent and doctor pass it on."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from meshnet.errors import WorkerError
from node_app.doctor.judging.worker import judge_version
from node_app.doctor.reading.programs import run_worker
from node_app.worker.process import LAST_MESSAGE_LENGTH_MAX, WorkerCommand, WorkerProcess
from node_app.worker.restart import FINAL_START_CODES

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S: Final = 60.0
RUN_WITHOUT_TORCH: Final = """\
import sys
sys.modules["torch"] = None
from node_app.reference_worker.torch.main import main
sys.exit(main())
"""
SAID: Final = "the extra [torch] is not installed: there is no torch"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    script, path = tmp_path / "without.py", tmp_path / "torch-worker"
    script.write_text(f"import sys\nsys.path[:0] = {sys.path!r}\n{RUN_WITHOUT_TORCH}")
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("arguments", [["--version"], ["--list-devices"], ["--socket", "s", "--parent-pid", "0"]])
def test_one_line_says_what_is_missing_and_how_to_install_it(program: Path, arguments: list[str]) -> None:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"meshnet-worker: {SAID}; in Meshnet's folder: make torch (")
    assert len(line.removeprefix("meshnet-worker: ")) < LAST_MESSAGE_LENGTH_MAX


def test_the_doctor_advises_to_install_it(program: Path) -> None:
    (finding,) = judge_version(run_worker(program, "--version"))
    assert SAID in finding.summary
    assert finding.advice.startswith("in Meshnet's folder: make torch (")
    assert "make native" not in finding.advice


async def test_the_agent_says_it(program: Path, tmp_path: Path) -> None:
    command = WorkerCommand(program, tmp_path / "socket", "", lambda: None)
    with pytest.raises(WorkerError, match="extra") as refused:
        await WorkerProcess.start(command, TIMEOUT_S)
    assert refused.value.code in FINAL_START_CODES
    assert f"{SAID}; in Meshnet's folder: make torch (" in refused.value.message
