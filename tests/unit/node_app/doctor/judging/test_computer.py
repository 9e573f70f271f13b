"""Python, packages, descriptors, disk, clock and ports: each good and bad."""

from __future__ import annotations

import pytest

from meshnet.printable import one_line
from node_app.doctor.findings import GIB, TEXT_LENGTH_MAX, Verdict
from node_app.doctor.judging.computer import (
    NODE_MODULES,
    OPTIONAL_MODULES,
    ListenFacts,
    judge_clock,
    judge_descriptors,
    judge_disk,
    judge_listening,
    judge_modules,
    judge_python,
)
from node_app.system.installing import QT_PACKAGES


@pytest.mark.parametrize(
    ("version", "verdict"),
    [((3, 11, 0), Verdict.OK), ((3, 14, 2), Verdict.OK), ((3, 10, 13), Verdict.FAILED), ((2, 7, 18), Verdict.FAILED)],
)
def test_python(version: tuple[int, int, int], verdict: Verdict) -> None:
    finding = judge_python(version)
    assert finding.verdict is verdict
    assert bool(finding.advice) == (verdict is not Verdict.OK)


def test_all_packages_are_there() -> None:
    (finding,) = judge_modules({})
    assert finding.verdict is Verdict.OK
    assert str(len(NODE_MODULES)) in finding.summary


@pytest.mark.parametrize("name", NODE_MODULES)
def test_a_missing_package_of_the_node_fails(name: str) -> None:
    (finding,) = judge_modules({name: "No module named x"})
    assert finding.verdict is Verdict.FAILED
    assert name in finding.summary
    assert "pip install -e '.[node]'" in finding.advice


@pytest.mark.parametrize("name", OPTIONAL_MODULES)
def test_a_missing_package_of_another_extra_only_warns(name: str) -> None:
    good, finding = judge_modules({name: f"No module named '{name}'"})
    assert (good.verdict, finding.verdict) == (Verdict.OK, Verdict.WARNING)
    assert name in finding.summary
    assert "pip install -e '.[" in finding.advice


NO_FILE = "cannot open shared object file: No such file or directory"


def test_what_qt_lacks_of_the_system_is_installed_with_the_systems_packages() -> None:
    _, finding = judge_modules({"PySide6.QtWidgets": f"libGL.so.1: {NO_FILE}"})
    assert "libGL.so.1" in finding.summary
    assert f"apt-get install {' '.join(QT_PACKAGES)}" in finding.advice
    assert "pip" not in finding.advice
    assert one_line(finding.advice, TEXT_LENGTH_MAX) == finding.advice  # whole


def test_a_package_that_lacks_a_library_of_the_system_is_not_installed_again() -> None:
    (finding,) = judge_modules({"grpc": f"libstdc++.so.6: {NO_FILE}"})
    assert finding.advice == "install the system package that contains libstdc++.so.6"


@pytest.mark.parametrize("problem", [f"libllama.so: {NO_FILE}", f"libQt6Core.so.6: {NO_FILE}", "No module"])
def test_libraries_that_no_system_brings_are_not_asked_of_it(problem: str) -> None:
    _, finding = judge_modules({"llama_cpp": problem})
    assert "pip install -e '.[llama]'" in finding.advice


@pytest.mark.parametrize(
    ("soft", "verdict"),
    [(None, Verdict.OK), (1024, Verdict.OK), (1023, Verdict.WARNING), (256, Verdict.WARNING), (255, Verdict.FAILED)],
)
def test_descriptors(soft: int | None, verdict: Verdict) -> None:
    finding = judge_descriptors(soft)
    assert finding.verdict is verdict
    assert ("ulimit" in finding.advice) == (verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("free_bytes", "verdict"), [(GIB, Verdict.OK), (GIB - 1, Verdict.WARNING), (0, Verdict.FAILED)]
)
def test_disk(free_bytes: int, verdict: Verdict) -> None:
    assert judge_disk("/home", free_bytes).verdict is verdict


def test_clock() -> None:
    assert judge_clock(1_800_000_000.0).verdict is Verdict.OK
    assert judge_clock(86_400.0).verdict is Verdict.WARNING


@pytest.mark.parametrize(
    ("facts", "verdict", "part"),
    [
        (ListenFacts("192.0.2.1:0", "", is_asked=False, is_node_running=False), Verdict.OK, "a free port"),
        (ListenFacts("192.0.2.1:70", "", is_asked=True, is_node_running=True), Verdict.OK, "the port is free"),
        (ListenFacts("", "", is_asked=False, is_node_running=False), Verdict.WARNING, "the relay carries"),
        (ListenFacts("h:7", "Address already in use", is_asked=True, is_node_running=True), Verdict.WARNING, "running"),
        (ListenFacts("h:7", "Address already in use", is_asked=True, is_node_running=False), Verdict.FAILED, "another"),
        (ListenFacts("h:0", "Permission denied", is_asked=False, is_node_running=False), Verdict.FAILED, "relay"),
    ],
)
def test_listening_for_peers(facts: ListenFacts, verdict: Verdict, part: str) -> None:
    finding = judge_listening(facts)
    assert finding.verdict is verdict
    assert part in finding.summary + finding.advice
