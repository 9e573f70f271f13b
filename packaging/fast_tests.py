"""`make test-fast`: runs the tests that need nothing beyond `make bootstrap`, in three minutes on two cores.

Two processes run side by side, one for the unit and contract tests and one for the integration tests. As `make test`
does, the program ends with the slowest tests and one JSON line of counts. It returns exit status 1 if a test failed or
none ran. It also prints the tests that are left out, so that a pass is not taken for a pass of all tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from run_tests import REPORTS, ROOT, Counts, print_slowest, read_junit

# Markers that are left out, each with the part that its tests need.
LEFT_OUT = {
    "native": "the native build",
    "llama": "libllama",
    "torch": "PyTorch",
    "browser": "a Chromium",
    "qt": "the libraries of the system that Qt loads",
    "e2e": "the native build and minutes",
    "cluster": "PostgreSQL and Redis",
}
# Integration tests that take minutes because they start and kill many processes, or read very large headers.
SLOW_FOLDERS = ("tests/integration/node_app", "tests/integration/inspect")
# Tests that skip themselves at import, before pytest looks at their markers.
SKIPPING_FOLDERS = ("tests/unit/node_app/reference_worker/torch",)
PARTS = {"unit": ("tests/unit", "tests/contract"), "integration": ("tests/integration",)}
_TIMEOUT_S = 900


def command(part: str) -> list[str]:
    """Return pytest's command line for a part, a key of `PARTS`."""
    selection = f"not ({' or '.join(LEFT_OUT)})"
    left_out = [f"--ignore={folder}" for folder in (*SLOW_FOLDERS, *SKIPPING_FOLDERS)]
    report = f"--junitxml={_report(part)}"
    return [sys.executable, "-m", "pytest", "-q", "--no-skips", "-m", selection, *left_out, report, *PARTS[part]]


def _report(part: str) -> Path:
    return REPORTS / f"fast-{part}.xml"


def run_parts() -> dict[str, int]:
    """Run all `PARTS` at once and print the output of each; return their exit statuses by name."""
    running = {}
    for part in PARTS:
        _report(part).unlink(missing_ok=True)
        log = (REPORTS / f"fast-{part}.log").open("w+", encoding="utf-8")
        process = subprocess.Popen(
            command(part), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        running[part] = (process, log)
    statuses = {}
    for part, (process, log) in running.items():
        try:
            statuses[part] = process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            statuses[part] = process.wait()
        log.seek(0)
        print(f"test-fast: {part}\n{log.read()}", flush=True)
        log.close()
    return statuses


def main() -> int:
    """List the tests that are left out, run the others, and print the counts; return the exit status."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    print("test-fast: left out, and run by `make test` (cluster: by `make cluster`):")
    for marker, need in LEFT_OUT.items():
        print(f"  tests marked {marker}: they need {need}")
    for folder in (*SLOW_FOLDERS, *SKIPPING_FOLDERS):
        print(f"  {folder}")
    print("  the native tests (ctest)", flush=True)
    counts = Counts()
    for part, status in run_parts().items():
        result = read_junit(_report(part))
        counts.python += result.ran
        counts.skipped += result.skipped
        counts.failed += max(result.failed, 1) if status else result.failed
    print_slowest(map(_report, PARTS))
    print(json.dumps(asdict(counts)), flush=True)
    return 1 if counts.failed or counts.skipped or not counts.python else 0


if __name__ == "__main__":
    sys.exit(main())
