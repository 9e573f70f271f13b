"""`make demo` as a newcomer runs it, once set up: the real model, real processes, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO_DEADLINE_S = 150
GONE_DEADLINE_S = 15
POLL_S = 0.05
MARK = "DEMO_TEST_MARK"

pytestmark = [pytest.mark.e2e, pytest.mark.native, pytest.mark.llama, pytest.mark.timeout(DEMO_DEADLINE_S + 60)]


def processes_marked(mark: str) -> list[int]:
    """Pids whose environment carries the mark; zombies have none."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found


def wait_until_gone(mark: str) -> list[int]:
    """Processes of the run that are still there at the deadline."""
    until = time.monotonic() + GONE_DEADLINE_S
    while (left := processes_marked(mark)) and time.monotonic() < until:
        time.sleep(POLL_S)
    return left


@contextmanager
def running_demo(mark: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    launcher = subprocess.Popen(
        [sys.executable, "packaging/demo", *arguments],
        cwd=ROOT,
        env={**os.environ, MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield launcher
    finally:
        if launcher.poll() is None:
            launcher.kill()
        launcher.communicate(timeout=GONE_DEADLINE_S)
        for pid in processes_marked(mark):
            os.kill(pid, signal.SIGKILL)


def wait_for_line(launcher: subprocess.Popen[str], words: str) -> list[str]:
    """Read lines until one holds the words; the launcher itself is bounded by deadlines."""
    seen = []
    for line in launcher.stdout or ():
        seen.append(line)
        if words in line:
            return seen
    raise AssertionError(f"the demo ended before it said {words!r}: {''.join(seen[-8:])}")


def test_once_equals_the_unsplit_model_and_leaves_nothing() -> None:
    with running_demo("once", "--once") as launcher:
        output, _ = launcher.communicate(timeout=DEMO_DEADLINE_S)
        assert launcher.returncode == 0, output[-2000:]
        record = json.loads(output.splitlines()[-1])
        assert record["completion_tokens"] > 0
        assert record["text_sha256"] == record["unsplit_sha256"]
        assert record["survivors"] == 0
        assert record["self_test"] == {"node-a": "passed", "node-b": "passed"}
        covered = [stage["layers"] for stage in record["stages"]]
        assert covered[0][0] == 0
        assert covered[-1][1] == 30
        assert all(left[1] == right[0] for left, right in pairwise(covered))
        assert wait_until_gone("once") == []


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ending_the_launcher_in_any_way_leaves_no_child(ending: signal.Signals) -> None:
    mark = f"killed by {ending.name}"
    with running_demo(mark) as launcher:
        wait_for_line(launcher, "Ctrl-C ends it")
        # The control: there is a family to be ended (launcher, site, relay, agents, workers).
        assert len(processes_marked(mark)) >= 5
        launcher.send_signal(ending)
        launcher.wait(timeout=GONE_DEADLINE_S + 15)
        assert wait_until_gone(mark) == []


def test_a_reader_that_leaves_ends_it_in_one_line() -> None:
    mark = "left"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "packaging/demo", "--once"],
        cwd=ROOT,
        env={**os.environ, MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=DEMO_DEADLINE_S,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "demo: ended, because the reader of its output is gone\n")
    assert wait_until_gone(mark) == []
