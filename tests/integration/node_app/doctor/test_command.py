"""`meshnet doctor` as a volunteer starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from node_app.status.local_address import AgentAddress, write_address
from tests.integration.node_app.ui.fake_agent import TOKEN, FakeAgent

if TYPE_CHECKING:
    from pathlib import Path

RUN_DOCTOR = "import sys; from node_app.doctor.main import main; sys.exit(main(sys.argv[1:]))"
TIMEOUT_S = 60


def run_doctor(*arguments: str, **variables: str) -> tuple[int, str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MESHNET_")}
    environment |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | variables
    command = [sys.executable, "-c", RUN_DOCTOR, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.native
def test_a_good_machine_passes_and_nothing_is_written(tmp_path: Path, fake_model: Path, worker_program: Path) -> None:
    state_dir = tmp_path / "state"
    given = ["--gguf", str(fake_model), "--state-dir", str(state_dir), "--worker", str(worker_program)]
    status, output, errors = run_doctor(*given, "--json")
    assert (status, errors) == (0, ""), output
    value = json.loads(output)
    assert output.count("\n") == 1
    assert value["counts"]["failed"] == 0
    assert {"python", "worker", "devices", "model", "memory"} <= {one["check"] for one in value["checks"]}
    assert not state_dir.exists()


def test_a_bad_machine_is_told_line_by_line(tmp_path: Path) -> None:
    given = ["--gguf", str(tmp_path / "none.gguf"), "--worker", "/bin/true", "--state-dir", str(tmp_path)]
    status, output, errors = run_doctor(*given, "--site", "http://127.0.0.1:9", "--link-listen", "192.0.2.1:7")
    assert (status, errors) == (1, "")
    lines = output.splitlines()
    bad = {line.split()[1] for line in lines if line.startswith("failed ")}
    assert bad == {"worker", "devices", "model", "site", "peers"}
    assert not [line for line in lines if "WebSocket" in line]  # nothing is there to let them through to
    assert all(" -> " in line for line in lines if line.startswith("failed "))
    assert lines[-1].startswith(f"doctor: {len(lines) - 1} findings: ")


@pytest.mark.parametrize(
    ("options", "verdict", "part"),
    [
        ([], "ok", "can listen at 127.0.0.1:0"),
        (["--carrier", "relay", "--link-listen", "192.0.2.1:7"], "warning", "no peer can dial this node"),
        (["--link-listen", "192.0.2.1:7"], "failed", "cannot listen at 192.0.2.1:7"),
    ],
)
def test_peers_are_told_of_what_a_node_with_these_options_would_listen_at(
    tmp_path: Path, options: list[str], verdict: str, part: str
) -> None:
    given = ["--site", "http://127.0.0.1:9", "--worker", "/bin/true", "--state-dir", str(tmp_path), "--json"]
    _, output, _ = run_doctor(*given, *options)
    (peers,) = [one for one in json.loads(output)["checks"] if one["check"] == "peers"]
    assert peers["verdict"] == verdict
    assert part in peers["summary"]


def test_a_reader_that_has_enough_is_no_fault(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", RUN_DOCTOR, "--state-dir", str(tmp_path), "--worker", "/bin/true"]
    done = subprocess.run(
        command, stdout=write_end, stderr=subprocess.PIPE, timeout=TIMEOUT_S, env=environment, check=False
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def test_no_secret_is_shown(tmp_path: Path) -> None:
    with FakeAgent(tmp_path):
        for extra in ([], ["--json"]):
            given = ["--state-dir", str(tmp_path), "--worker", "/bin/true", *extra]
            _, output, errors = run_doctor(*given, MESHNET_TOKEN="enrol-secret-17")
            assert "2 sessions" in output
            assert TOKEN not in output + errors
            assert "enrol-secret-17" not in output + errors
    write_address(tmp_path, AgentAddress("http://127.0.0.1:9", TOKEN, 1))
    _, output, errors = run_doctor("--state-dir", str(tmp_path), "--worker", "/bin/true")
    assert "left its address file here" in output
    assert TOKEN not in output + errors


def test_a_missing_package_costs_the_checks_that_need_it_and_no_other(tmp_path: Path) -> None:
    for name in ("requests", "websockets", "platformdirs", "grpc"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n")
    path = os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)])
    given = ["--state-dir", str(tmp_path / "s"), "--worker", "/bin/true", "--site", "http://127.0.0.1:9", "--json"]
    status, output, errors = run_doctor(*given, PYTHONPATH=path)
    assert (status, errors) == (1, "")
    found = {one["check"]: one for one in json.loads(output)["checks"] if one["verdict"] != "warning"}
    assert "grpc, platformdirs, requests, websockets cannot be imported" in found["packages"]["summary"]
    assert found["site"]["summary"] == "needs the Python module requests"
    assert found["control"]["summary"] == "needs the Python module websockets"
    assert found["hardware"]["verdict"] == "ok"
    assert found["disk"]["verdict"] == "ok"


def test_it_is_a_command_of_the_package() -> None:
    from meshnet.cli import installed_commands

    command = installed_commands().get("doctor")
    if command is None:
        pytest.fail("run `make bootstrap`: the installed package does not declare the command yet")
    assert command.value == "node_app.doctor.main:main"
