"""`make test`: builds the programs that tests need and runs all tests: Python, native and end-to-end ones.

The program writes JUnit files to build/reports. At its end it prints the slowest tests and one JSON line of counts. The
exit status is 1 if a test failed or was skipped, or if the Python or the native part ran no test: a run that tests
nothing is not a success. Only the tests that need PostgreSQL and Redis are left to `make cluster`.
"""

from __future__ import annotations

import heapq
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import qt_libraries

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "build/reports"
# Programs that provide the things which the tests need and `make bootstrap` does not set up.
PREPARATIONS = (
    ["packaging/qt_libraries.py"],
    ["packaging/chromium.py"],
    ["packaging/torch_extra.py"],
    ["native/tools/build.py", "cpu"],
    ["-m", "tests.simulators.tiny_models"],
)
# A whole part may take this long before it is ended as hung.
_PART_TIMEOUT_S = 2400
_PYTEST_NOTHING_COLLECTED = 5
_SLOWEST_SHOWN = 10


@dataclass
class Counts:
    """How many tests ran in each part, and how many tests of all parts were skipped or failed."""

    python: int = 0
    native: int = 0
    e2e: int = 0
    skipped: int = 0
    failed: int = 0


@dataclass(frozen=True)
class PartResult:
    """Numbers of tests in one JUnit file. `ran` does not include the skipped ones."""

    ran: int
    skipped: int
    failed: int


def read_junit(path: Path) -> PartResult:
    """Count the tests of a JUnit file. A missing file counts as one failure: pytest or ctest died before its end."""
    if not path.is_file():
        return PartResult(ran=0, skipped=0, failed=1)
    cases = _cases(path)
    skipped = sum(1 for case in cases if case.find("skipped") is not None)
    failed = sum(1 for case in cases if case.find("failure") is not None or case.find("error") is not None)
    return PartResult(ran=len(cases) - skipped, skipped=skipped, failed=failed)


def _cases(path: Path) -> list[ET.Element]:
    return list(ET.parse(path).getroot().iter("testcase"))  # noqa: S314 - written by our own run


def slowest_tests(paths: Iterable[Path], count: int = _SLOWEST_SHOWN) -> list[tuple[float, str]]:
    """Return (seconds, name) of the `count` slowest tests in JUnit files, slowest first; a file may be missing."""
    cases = [case for path in paths if path.is_file() for case in _cases(path)]
    named = [(float(case.get("time", 0)), f"{case.get('classname')}.{case.get('name')}") for case in cases]
    return heapq.nlargest(count, named)


def print_slowest(paths: Iterable[Path]) -> None:
    """Print a line for each of the slowest tests."""
    print(f"test: the {_SLOWEST_SHOWN} slowest")
    for seconds, name in slowest_tests(paths):
        print(f"{seconds:8.2f} s  {name}", flush=True)


def exit_status(counts: Counts) -> int:
    """Return 1 if a test failed or was skipped, or if the Python or the native part ran no test; otherwise 0."""
    return 1 if counts.failed or counts.skipped or not counts.python or not counts.native else 0


def _run(command: list[str]) -> int:
    print("+ " + " ".join(command), flush=True)
    # Where nobody may install packages, Qt's libraries lie in a folder of the build.
    environment = {**os.environ, **qt_libraries.environment(ROOT / "build")}
    try:
        return subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, timeout=_PART_TIMEOUT_S, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        print(f"test: ended after {_PART_TIMEOUT_S} s", file=sys.stderr)
        return 1


def _part(command: list[str], report: Path, *, may_be_empty: bool = False) -> PartResult:
    report.unlink(missing_ok=True)
    status = _run(command)
    if may_be_empty and status == _PYTEST_NOTHING_COLLECTED:
        return PartResult(ran=0, skipped=0, failed=0)
    result = read_junit(report)
    # A failure that no test case shows (collection, a crash while closing) still counts as one.
    return PartResult(result.ran, result.skipped, max(result.failed, 1)) if status else result


def _pytest(selection: str, report: Path) -> list[str]:
    return [sys.executable, "-m", "pytest", "--no-skips", "-m", selection, f"--junitxml={report}"]


def _ctest(report: Path) -> list[str]:
    beside = Path(sys.executable).with_name("ctest")
    program = str(beside) if beside.exists() else "ctest"
    jobs = str(len(os.sched_getaffinity(0)))
    directory = ["--test-dir", "build/native/cpu", "--timeout", "300"]
    return [program, *directory, "--output-on-failure", "-j", jobs, "--output-junit", str(report)]


def run_everything() -> Counts:
    """Run `PREPARATIONS`, then all tests, and return the counts. If a step fails, the others still run."""
    counts = Counts()
    for command in PREPARATIONS:
        counts.failed += 1 if _run([sys.executable, *command]) else 0
    python = _part(_pytest("not e2e and not cluster", REPORTS / "python.xml"), REPORTS / "python.xml")
    native = _part(_ctest(REPORTS / "native.xml"), REPORTS / "native.xml")
    e2e = _part(_pytest("e2e", REPORTS / "e2e.xml"), REPORTS / "e2e.xml", may_be_empty=True)
    counts.python, counts.native, counts.e2e = python.ran, native.ran, e2e.ran
    for part in (python, native, e2e):
        counts.skipped += part.skipped
        counts.failed += part.failed
    return counts


def main() -> int:
    """Run everything; print the slowest tests and, last, the line of counts. Returns the exit status."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    counts = run_everything()
    print_slowest(REPORTS / name for name in ("python.xml", "native.xml", "e2e.xml"))
    print(json.dumps(asdict(counts)), flush=True)
    return exit_status(counts)


if __name__ == "__main__":
    sys.exit(main())
