"""The worker's own reports: the right one, and each way to be wrong."""

from __future__ import annotations

import json

import pytest

from meshnet import __version__, constants
from node_app.doctor.findings import Finding, Verdict
from node_app.doctor.judging.worker import ProgramRun, judge_devices, judge_version

REPORT: dict[str, object] = {
    "worker": __version__,
    "wire": {"min": constants.WIRE_VERSION_MIN, "max": constants.WIRE_VERSION},
    "contract": {"graph_semantics": constants.GRAPH_SEMANTICS_VERSION},
    "exact_class": {"pin": "0c1e57098bba", "patched_tree": "6" * 64, "backend": "cpu", "repack": True},
    "llama": "0.5.0",
    "ggml": "0.25.3",
}
CPU = {"name": "CPU", "description": "AMD EPYC", "type": "cpu", "memory_total_bytes": 8 << 30, "memory_free_bytes": 1}


def judged(**changes: object) -> list[Finding]:
    return list(judge_version(ProgramRun(0, json.dumps(REPORT | changes).encode())))


def test_the_right_worker_shows_contract_and_exact_class() -> None:
    worker, exact = judged()
    assert (worker.verdict, exact.verdict) == (Verdict.OK, Verdict.OK)
    assert f"version {__version__}, ggml 0.25.3, graphs {constants.GRAPH_SEMANTICS_VERSION}" == worker.summary
    assert exact.summary == "pin 0c1e57098bba, patched_tree 666666666666, backend cpu, repack True"


@pytest.mark.parametrize(("library", "shown"), [({"torch": "2.13.0"}, "torch 2.13.0"), ({}, "no library named")])
def test_a_worker_of_another_library_is_shown_with_it(library: dict[str, str], shown: str) -> None:
    report = {name: value for name, value in REPORT.items() if name != "ggml"} | library
    worker = next(judge_version(ProgramRun(0, json.dumps(report).encode())))
    assert (worker.verdict, shown in worker.summary) == (Verdict.OK, True)


@pytest.mark.parametrize(
    ("changes", "verdict", "part"),
    [
        ({"worker": "0.0.9"}, Verdict.WARNING, "version 0.0.9"),
        ({"wire": {"min": 90, "max": 91}}, Verdict.FAILED, "wire versions 90 to 91"),
        ({"wire": {"min": 0, "max": 0}}, Verdict.FAILED, "wire versions 0 to 0"),
        ({"wire": {"min": "one"}}, Verdict.FAILED, "no range"),
        ({"wire": None}, Verdict.FAILED, "lacks"),
        ({"contract": {"graph_semantics": 77}}, Verdict.FAILED, "version 77"),
        ({"contract": {}}, Verdict.FAILED, "version None"),
    ],
)
def test_a_worker_of_other_versions(changes: dict[str, object], verdict: Verdict, part: str) -> None:
    worker = judged(**changes)[0]
    assert worker.verdict is verdict
    assert part in worker.summary
    assert "make native" in worker.advice


RUNS = [
    (ProgramRun(None), "does not answer"),
    (ProgramRun(-4), "another processor"),
    (ProgramRun(-11, error="bad"), "status -11: bad"),
    (ProgramRun(127, error="No such file"), "status 127: No such file"),
    (ProgramRun(0, b""), "not"),
    (ProgramRun(0, b"usage: something"), "not"),
    (ProgramRun(0, b"[1]"), "not"),
    (ProgramRun(0, b"[" * 50_000), "not"),
]


@pytest.mark.parametrize(("run", "part"), RUNS)
def test_a_program_that_is_no_worker_here(run: ProgramRun, part: str) -> None:
    for findings in (list(judge_version(run)), [judge_devices(run)]):
        assert len(findings) == 1
        assert findings[0].verdict is Verdict.FAILED
        assert part in findings[0].summary
        assert findings[0].advice


def test_a_worker_that_lacks_its_extra_is_told_with_its_own_advice() -> None:
    words = "the extra [torch] is not installed: there is no torch"
    run = ProgramRun(1, error=f"meshnet-worker: {words}; in Meshnet's folder: pip [missing_extra]")
    for finding in (*judge_version(run), judge_devices(run)):
        assert finding.verdict is Verdict.FAILED
        assert (finding.summary, finding.advice) == (f"the worker cannot run: {words}", "in Meshnet's folder: pip")


def test_devices_are_listed_with_their_memory() -> None:
    finding = judge_devices(ProgramRun(0, json.dumps({"devices": [CPU, {"name": "Vulkan0"}]}).encode()))
    assert finding.verdict is Verdict.OK
    assert finding.summary == "CPU (AMD EPYC, 8.0 GiB); Vulkan0 (None)"


@pytest.mark.parametrize("devices", [[], None, "CPU", [1], {}])
def test_no_devices_fail(devices: object) -> None:
    assert judge_devices(ProgramRun(0, json.dumps({"devices": devices}).encode())).verdict is Verdict.FAILED
