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


# What the shipped worker would contain if it linked the captures, the trace of steps or the profile of the engine.
MEASURED = [b"CapturedLogits", b"CapturedStep", b"ShardCaptures", b"LlamaProfile"]


@pytest.mark.parametrize("text", MEASURED)
def test_the_shipped_worker_links_nothing_that_measures(text, worker_program, measure_program):
    assert text in measure_program.read_bytes()
    assert text not in worker_program.read_bytes()


def test_both_programs_are_the_same_build(worker_program, measure_program):
    assert run(measure_program, "--version").stdout == run(worker_program, "--version").stdout


@pytest.mark.parametrize(
    "arguments",
    [[], ["--nonsense"], ["--version", "--version"], ["--socket", "/nowhere/w.sock", "--allow-capture"]],
)
def test_a_wrong_command_line_is_refused_with_the_usage(arguments, worker_program):
    done = run(worker_program, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: meshnet-worker" in done.stderr
