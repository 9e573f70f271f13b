"""The built worker's facts agree with what Python believes."""

import json
import subprocess
from pathlib import Path

import pytest

from meshnet import __version__, constants

PROVENANCE = Path(__file__).resolve().parents[2] / "native/provenance.json"

pytestmark = pytest.mark.native


def run(program, *arguments):
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_version_agrees_with_the_python_package_and_the_manifest(worker_program):
    report = json.loads(run(worker_program, "--version").stdout)
    manifest = json.loads(PROVENANCE.read_text())

    assert report["worker"] == __version__
    assert report["wire"] == {"min": constants.WIRE_VERSION_MIN, "max": constants.WIRE_VERSION}
    assert report["contract"] == {"graph_semantics": constants.GRAPH_SEMANTICS_VERSION}
    assert report["exact_class"]["pin"] == manifest["upstream"]["commit"]
    assert report["exact_class"]["patched_tree"] == manifest["tree"]["patched_sha256"]
    assert report["llama"] == manifest["upstream"]["llama_version"]
    assert report["ggml"] == manifest["upstream"]["ggml_version"]


def test_devices_hold_the_cpu_with_its_memory_in_bytes(worker_program):
    devices = json.loads(run(worker_program, "--list-devices").stdout)["devices"]
    (cpu,) = [device for device in devices if device["type"] == "cpu"]
    assert cpu["memory_total_bytes"] > 1 << 28
    assert 0 <= cpu["memory_free_bytes"] <= cpu["memory_total_bytes"]


@pytest.mark.parametrize("arguments", [[], ["--nonsense"], ["--version", "--version"]])
def test_a_wrong_command_line_is_refused_with_the_usage(arguments, worker_program):
    done = run(worker_program, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: meshnet-worker" in done.stderr
