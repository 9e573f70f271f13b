"""Starts the demo's child processes, waits for them with deadlines, and ends them.

Invariants: if the demo's process dies, in whatever way, the kernel ends every child. Every process of one run, also a
child of a child, has a random mark of the run in its environment, so that those that still live can be found in /proc.
The output of a long-lived child goes to files, so that no child blocks on a pipe that nobody reads.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meshnet.parent_death import bound_command

# Its name does not begin with MESHNET_, because an agent removes such variables from its worker's environment.
RUN_MARK = "DEMO_RUN_MARK"
POLL_S = 0.02
STOP_DEADLINE_S = 8.0


class DemoError(Exception):
    """The demo cannot go on; the message is for the person who started it."""


@dataclass
class Child:
    """One long-lived process and the files of its output."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    def ready_line(self, deadline_s: float) -> dict[str, Any]:
        """Wait at most `deadline_s` seconds for the child's `{"ready": true, ...}` line and return its fields.

        Raises:
            DemoError: the child ended first, or did not print the line in time.
        """
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            for record in self._records():
                if record.get("ready") is True:
                    return record
            if self.process.poll() is not None:
                raise DemoError(f"{self.name} ended with status {self.process.returncode}{self.last_error_lines()}")
            time.sleep(POLL_S)
        raise DemoError(f"{self.name} was not ready within {deadline_s:.0f} s{self.last_error_lines()}")

    def _records(self) -> Iterator[dict[str, Any]]:
        for line in self.output.read_bytes().splitlines(keepends=True):
            if line.startswith(b"{") and line.endswith(b"\n"):
                yield json.loads(line)

    def last_error_lines(self, lines: int = 6) -> str:
        """Return the last lines of the child's error output, indented; "" if there are none."""
        last = self.errors.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        return "".join(f"\n    {line}" for line in last)


@dataclass(frozen=True)
class Errand:
    """A short command that was started. Its output is a few lines, which fit into a pipe."""

    shown: str
    process: subprocess.Popen[bytes]

    def result(self, deadline_s: float) -> dict[str, Any]:
        """Wait until the command ends and return the JSON object on its last line.

        Raises:
            DemoError: the command failed, took too long or printed no JSON.
        """
        try:
            output, errors = self.process.communicate(timeout=deadline_s)
            if self.process.returncode != 0:
                last = errors.decode(errors="replace").strip().splitlines()[-3:]
                raise DemoError(f"{self.shown} failed: " + " | ".join(last))
            record: dict[str, Any] = json.loads(output.splitlines()[-1])
        except subprocess.TimeoutExpired:
            raise DemoError(f"{self.shown} took longer than {deadline_s:.0f} s") from None
        except (IndexError, ValueError):
            raise DemoError(f"{self.shown} printed no result") from None
        return record

    def stop(self) -> None:
        """Kill the command if it still runs. Idempotent."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@dataclass
class Family:
    """All child processes of one run of the demo. It is not thread-safe; only the main thread uses it."""

    folder: Path
    environment: Mapping[str, str]
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    children: list[Child] = field(default_factory=list)
    errands: list[Errand] = field(default_factory=list)

    def _marked(self) -> dict[str, str]:
        return {**self.environment, RUN_MARK: self.mark}

    def start(self, name: str, command: Sequence[str]) -> Child:
        """Start a long-lived child; its output goes to `<folder>/<name>.{out,err}`."""
        output, errors = self.folder / f"{name}.out", self.folder / f"{name}.err"
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                bound_command(command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=self._marked()
            )
        child = Child(name, process, output, errors)
        self.children.append(child)
        return child

    def begin(self, command: Sequence[str]) -> Errand:
        """Start a short command; `Errand.result` waits for its end."""
        process = subprocess.Popen(
            bound_command(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._marked(),
        )
        errand = Errand(" ".join(command[1:4]), process)
        self.errands.append(errand)
        return errand

    def fallen(self) -> Child | None:
        """Return a long-lived child that has ended by itself; None if there is none."""
        return next((child for child in self.children if child.process.poll() is not None), None)

    def stop(self) -> None:
        """End every child, the last started first: SIGTERM, then SIGKILL after a deadline. Idempotent."""
        for errand in self.errands:
            errand.stop()
        for child in reversed(self.children):
            if child.process.poll() is None:
                child.process.terminate()
            try:
                child.process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait(STOP_DEADLINE_S)

    def survivors(self, patience_s: float = 2.0) -> list[int]:
        """Return the pids of this run's processes that still live after at most `patience_s` seconds of waiting."""
        until = time.monotonic() + patience_s
        while (left := marked_processes(self.mark)) and time.monotonic() < until:
            time.sleep(POLL_S)
        return left


def marked_processes(mark: str) -> list[int]:
    """Return the pids of all other processes that have the mark in their environment; zombies have none."""
    wanted = f"{RUN_MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(entry.name))
    return found
