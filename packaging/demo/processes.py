"""The demo's child processes: started with a deadline, stopped in reverse order, never left behind.

Invariants: the kernel ends every child when the launcher dies, in whatever way; every process of one run,
however deep, carries the run's mark in its environment, so that survivors are counted by looking and not by trusting;
output goes to files, so that no child ever blocks on a pipe nobody reads.
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

# Not MESHNET_*: an agent keeps those from its worker.
RUN_MARK = "DEMO_RUN_MARK"
POLL_S = 0.02
STOP_DEADLINE_S = 8.0


class DemoError(Exception):
    """The demo cannot go on; the message is for the person who started it."""


@dataclass
class Child:
    """One started process and the files that take its output."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    def ready_line(self, deadline_s: float) -> dict[str, Any]:
        """The child's `{"ready": true, ...}` line, waited for at most `deadline_s` seconds.

        Raises:
            DemoError: the child ended first, or said nothing in time.
        """
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            for record in self._records():
                if record.get("ready") is True:
                    return record
            if self.process.poll() is not None:
                raise DemoError(f"{self.name} ended with status {self.process.returncode}{self.last_words()}")
            time.sleep(POLL_S)
        raise DemoError(f"{self.name} was not ready within {deadline_s:.0f} s{self.last_words()}")

    def _records(self) -> Iterator[dict[str, Any]]:
        for line in self.output.read_bytes().splitlines(keepends=True):
            if line.startswith(b"{") and line.endswith(b"\n"):
                yield json.loads(line)

    def last_words(self, lines: int = 6) -> str:
        """The end of the child's error output, indented, or nothing."""
        words = self.errors.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        return "".join(f"\n    {line}" for line in words)


@dataclass(frozen=True)
class Errand:
    """A short command that is under way; its output is a few lines, which a pipe holds."""

    shown: str
    process: subprocess.Popen[bytes]

    def result(self, deadline_s: float) -> dict[str, Any]:
        """Wait for the end and parse the JSON object on its last line.

        Raises:
            DemoError: it failed, took too long or printed no JSON.
        """
        try:
            output, errors = self.process.communicate(timeout=deadline_s)
            if self.process.returncode != 0:
                words = errors.decode(errors="replace").strip().splitlines()[-3:]
                raise DemoError(f"{self.shown} failed: " + " | ".join(words))
            record: dict[str, Any] = json.loads(output.splitlines()[-1])
        except subprocess.TimeoutExpired:
            raise DemoError(f"{self.shown} took longer than {deadline_s:.0f} s") from None
        except (IndexError, ValueError):
            raise DemoError(f"{self.shown} printed no result") from None
        return record

    def stop(self) -> None:
        """Kill it if it still runs. Idempotent."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@dataclass
class Family:
    """All children of one run. Not thread safe: the launcher's main thread owns it."""

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
        """Start a short command, to be finished by `Errand.result`."""
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
        """A long-lived child that ended by itself, if any."""
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
        """Pids that still carry this run's mark once they have had `patience_s` seconds to end."""
        until = time.monotonic() + patience_s
        while (left := marked_processes(self.mark)) and time.monotonic() < until:
            time.sleep(POLL_S)
        return left


def marked_processes(mark: str) -> list[int]:
    """Pids, other than our own, whose environment carries the mark. Zombies have none."""
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
