"""Real processes of one test run: started with deadlines, killed by their own pids, never left behind.

Invariants: every process of a run, however deep, carries the run's mark in its environment, so that what is left is
counted by looking; output goes to files, so that nobody blocks on a pipe nobody reads; every wait is polling to a
deadline.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from meshnet.parent_death import bound_command

Found = TypeVar("Found")

RUN_MARK = "E2E_RUN_MARK"  # not MESHNET_*: an agent keeps those from its worker
DEADLINE_S = 30.0
POLL_S = 0.01
STOP_DEADLINE_S = 15.0


def until(fact: Callable[[], Found], what: str, deadline_s: float = DEADLINE_S) -> Found:
    """Poll `fact` until it gives something true, and return that; fails with `what` and the last value."""
    limit_s = time.monotonic() + deadline_s
    while not (found := fact()):
        assert time.monotonic() < limit_s, f"not within {deadline_s:g} s: {what} (last: {found!r})"
        time.sleep(POLL_S)
    return found


def children_of(pid: int) -> list[psutil.Process]:
    """Live descendants; a process that is gone has none."""
    try:
        return [one for one in psutil.Process(pid).children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    except psutil.NoSuchProcess:
        return []


def descriptors_of(pid: int) -> int:
    """Open file descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@dataclass
class Program:
    """One started process and the files that take its output."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def ready_lines(self) -> list[dict[str, Any]]:
        """Every ready line so far; of a node one for each time it began to serve."""
        lines = self.output.read_bytes().splitlines(keepends=True)
        records = [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"\n")]
        return [record for record in records if record.get("ready") is True]

    def ready(self, count: int = 1, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """Wait for the `count`-th ready line."""

        def lines() -> list[dict[str, Any]]:
            assert self.process.poll() is None, f"{self.name} ended: {self.last_words()}"
            found = self.ready_lines()
            return found if len(found) >= count else []

        return until(lines, f"{self.name} is ready ({count}): {self.last_words()}", deadline_s)[count - 1]

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal that ends it, and wait for its end."""
        self.process.send_signal(number)
        self.wait()

    def wait(self) -> None:
        """Wait for the end that a signal has asked for."""
        self.process.wait(STOP_DEADLINE_S)


@dataclass
class Family:
    """All processes of one run; a context that ends them, the last started first."""

    folder: Path
    environment: dict[str, str]
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    programs: list[Program] = field(default_factory=list)

    def _marked(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MESHNET_", "DJANGO_")) and not name.lower().endswith("_proxy")
        }
        path = os.pathsep.join(one for one in sys.path if one)
        return {**kept, "PYTHONPATH": path, **self.environment, RUN_MARK: self.mark}

    def start(self, name: str, command: Sequence[str]) -> Program:
        """Start a long-lived process; its output goes to files named after it and a number."""
        number = len(self.programs)
        output, log = self.folder / f"{number}-{name}.out", self.folder / f"{number}-{name}.log"
        with output.open("wb") as out, log.open("wb") as err:
            process = subprocess.Popen(
                bound_command(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._marked(),
            )
        self.programs.append(Program(name, process, output, log))
        return self.programs[-1]

    def run(self, command: Sequence[str]) -> dict[str, Any]:
        """Run a short command and return the JSON object on its last line, whatever its status."""
        done = subprocess.run(
            list(command), capture_output=True, env=self._marked(), timeout=DEADLINE_S, check=False, text=True
        )
        assert done.stdout.strip(), f"{command[2:5]} said nothing: {done.stderr[-800:]}"
        record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return record

    def stop(self) -> None:
        """End every process in order; one that does not end in time is killed, and that fails the run."""
        late = []
        for program in reversed(self.programs):
            if program.process.poll() is None:
                program.process.send_signal(signal.SIGCONT)
                program.process.terminate()
            try:
                program.process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                late.append(f"{program.name}: {program.last_words()}")
                program.kill()
        assert not late, f"had to be killed: {late}"

    def marked_processes(self) -> Iterator[int]:
        """Pids of the run that live; zombies carry no mark."""
        wanted = f"{RUN_MARK}={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue
