"""What every test shares: the shared libraries of the native build, and the rule that skips can be forbidden."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import chromium
import cluster_parts

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parents[1]
NATIVE_BIN = ROOT / "build/native/cpu/bin"

# The bindings read this when they are imported; they come without a library of their own.
if (NATIVE_BIN / "libllama.so").exists():
    os.environ.setdefault("LLAMA_CPP_LIB_PATH", str(NATIVE_BIN))

# No verdict of a property test may depend on how busy the machine is; CI draws the same examples every time.
settings.register_profile(
    "meshnet",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
)
settings.load_profile("meshnet")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails the run (make test, CI)")


@functools.cache
def _reason_not_to_load_qt() -> str | None:
    """Load Qt in a process of its own, so that no other test runs beside it."""
    probe = [sys.executable, "-c", "import PySide6.QtNetwork, PySide6.QtTest, PySide6.QtWidgets"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 0:
        return None
    return f"Qt cannot be loaded ({done.stderr.strip().splitlines()[-1]}): run `make test`, which brings its libraries"


# What a marker needs to be imported, and what to say where it cannot be.
_MODULES = {
    "llama": ("llama_cpp", "no llama-cpp-python: run `make bootstrap`"),
    "torch": ("torch", "no PyTorch: run packaging/torch_extra.py"),
}


def _reason_not_to_start(item: pytest.Item) -> str | None:
    """Name a program that the test starts and this machine lacks."""
    if item.get_closest_marker("native") and not (NATIVE_BIN / "meshnet-worker").exists():
        return "no native build: run `make native`"
    if item.get_closest_marker("browser") and chromium.find() is None:
        return "no Chromium: run `make browser`"
    if item.get_closest_marker("cluster") and (cluster_parts.find() is None or cluster_parts.missing_libraries()):
        return "no PostgreSQL, no Redis, or not the extra [cluster]: run `make cluster`"
    return None


def _reason_not_to_run(item: pytest.Item) -> str | None:
    if item.get_closest_marker("qt") and (reason := _reason_not_to_load_qt()):
        return reason
    for marker, (module, reason) in _MODULES.items():
        if item.get_closest_marker(marker) and importlib.util.find_spec(module) is None:
            return reason
    if item.get_closest_marker("llama") and "LLAMA_CPP_LIB_PATH" not in os.environ:
        return "no shared libllama: run `make native`"
    return _reason_not_to_start(item)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        reason = _reason_not_to_run(item)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def _forbid(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    # An expected failure is reported as skipped too, with `wasxfail`; that one did run.
    if report.outcome == "skipped" and not hasattr(report, "wasxfail") and config.getoption("--no-skips"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and --no-skips allows none: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _forbid(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _forbid(report, collector.config)
    return report


@pytest.fixture
def worker_program() -> Path:
    """The built worker; tests that use it carry the marker `native`."""
    return NATIVE_BIN / "meshnet-worker"


@pytest.fixture
def measure_program(worker_program: Path) -> Path:
    """The built worker with captures and profiles, which is not shipped."""
    return worker_program.with_name("meshnet-worker-measure")


@pytest.fixture(scope="session")
def python_program() -> str:
    return sys.executable
