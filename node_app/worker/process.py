"""The worker's operating system process: started, ready, ended.

Invariants: the child dies with the agent however the agent dies (the kernel sends it SIGKILL, and the worker watches
its parent itself); it gets no variable named MESHNET_*, so no token; every wait has a deadline; `end` is idempotent
and leaves neither process nor pump behind. Used from the event loop of the main thread only: the kernel's death signal
follows the *thread* that started the child.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meshnet.errors import WorkerError
from meshnet.llama_library import BUILD_FOLDER, WORKER_PROGRAM, built_folder
from meshnet.parent_death import bound_command
from meshnet.printable import printable
from node_app.worker.line_budget import LineBudget

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

LINE_LIMIT_BYTES = 64 * 1024
KILL_TIMEOUT_S = 10.0
# Under memory pressure the kernel should take the worker, whose death the agent survives, and not the agent.
OOM_SCORE_ADJUSTMENT = 500
# How the worker begins what it says of itself; libraries write to the same stream.
OWN_WORDS = "meshnet-worker: "
LAST_WORDS_LENGTH_MAX = 200
LAST_WORDS_TIMEOUT_S = 1.0

# Exit status of a worker that cannot serve, and says why: its port may be free later.
EXIT_CANNOT_SERVE = 1
# How what it says ends where something is not installed.
MISSING_EXTRA = " [missing_extra]"
# From here on a shell tells by its own status which signal ended what it ran.
SHELL_SIGNAL_STATUS = 128


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """How a worker is started.

    Attributes:
        program: absolute path.
        socket_path: where it listens for the agent; its directory is 0700.
        link_listen: `host:port` for peers; empty: no listener.
        local_links: gives the directory, 0700, where workers of this user and machine meet; None: the network only.
            Asked at each start: it may have been removed meanwhile.
    """

    program: Path
    socket_path: Path
    link_listen: str
    local_links: Callable[[], Path | None]

    def arguments(self, parent_pid: int) -> list[str]:
        """Return the command line."""
        line = [str(self.program), "--socket", str(self.socket_path), "--parent-pid", str(parent_pid)]
        if self.link_listen:
            line += ["--link-listen", self.link_listen]
        links = self.local_links()
        if links is not None:
            line += ["--local-links", str(links)]
        return line


def find_worker_program(asked: Path | None) -> Path:
    """Return the worker to run: the one asked for, else the checkout's build, else the one on PATH.

    Raises:
        WorkerError: there is none.
    """
    installed = shutil.which(WORKER_PROGRAM)
    built = built_folder() / WORKER_PROGRAM
    candidates = [asked] if asked is not None else [built, *([Path(installed)] if installed else [])]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.resolve()
    where = str(asked) if asked is not None else f"{BUILD_FOLDER / WORKER_PROGRAM} or {WORKER_PROGRAM} on PATH"
    raise WorkerError("worker_missing", "No worker program", f"no program at {where}; `make native` builds it")


def worker_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables a worker may see: none of ours (tokens), and no debugger at an abort of ggml."""
    kept = {name: value for name, value in environment.items() if not name.startswith("MESHNET_")}
    return kept | {"GGML_NO_BACKTRACE": "1"}


class WorkerProcess:
    """One running worker. Owns the process and the tasks that read its output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._pumps: list[asyncio.Task[None]] = []
        self._last_words = ""

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @classmethod
    async def start(cls, command: WorkerCommand, ready_timeout_s: float) -> WorkerProcess:
        """Start a worker and return once it listens.

        Raises:
            WorkerError: it cannot be run, ended, or printed no ready line in time; nothing is left running.
            StateError: the directory for local links cannot be used.
        """
        command.socket_path.unlink(missing_ok=True)  # left by a worker that was killed
        try:
            process = await asyncio.create_subprocess_exec(
                *bound_command(command.arguments(os.getpid()), oom_score_adjustment=OOM_SCORE_ADJUSTMENT),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT_BYTES,
                env=worker_environment(dict(os.environ)),
                start_new_session=True,  # Ctrl-C reaches the agent, which ends the worker in order
            )
        except OSError as error:
            raise WorkerError(
                "worker_missing", "Worker did not start", f"{command.program}: {error.strerror}"
            ) from error
        worker = cls(process)
        try:
            await worker._become_ready(ready_timeout_s)
        except BaseException:
            await worker.end(grace_s=0.0)
            raise
        return worker

    async def _become_ready(self, timeout_s: float) -> None:
        errors = asyncio.create_task(_log_lines(self._stderr, self._note_words), name="worker-stderr")
        self._pumps.append(errors)
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._stdout.readline()
                status = None if line else await self._process.wait()
        except TimeoutError as error:
            message = f"no ready line within {timeout_s:g} s"
            raise WorkerError("worker_not_ready", "Worker did not start", message) from error
        except ValueError as error:
            raise WorkerError("worker_not_ready", "Worker did not start", "its first line is too long") from error
        if status is not None:
            await asyncio.wait([errors], timeout=LAST_WORDS_TIMEOUT_S)
            raise ended_early(status, self._last_words)
        if not _is_ready_line(line):
            raise WorkerError("worker_not_ready", "Worker did not start", "its first line is not a ready line")
        self._pumps.append(asyncio.create_task(_log_lines(self._stdout), name="worker-stdout"))

    def _note_words(self, line: str) -> None:
        if line.startswith(OWN_WORDS):
            self._last_words = line.removeprefix(OWN_WORDS)[:LAST_WORDS_LENGTH_MAX]

    async def wait(self) -> int:
        """Return the exit status once the process ended (negative: the signal that ended it)."""
        return await self._process.wait()

    async def end(self, grace_s: float) -> None:
        """End the process: ask, wait `grace_s` at most, then kill it and all it started. Idempotent.

        Raises:
            WorkerError: the kernel did not let it go within KILL_TIMEOUT_S (it hangs in a device).
        """
        if self._process.returncode is None and grace_s > 0:
            self._signal(signal.SIGTERM)
            if not await self._has_ended_within(grace_s):
                logger.warning("worker %d did not end within %g s, killing it", self.pid, grace_s)
        if self._process.returncode is None:
            self._signal(signal.SIGKILL)  # ends a stopped process too
            if not await self._has_ended_within(KILL_TIMEOUT_S):
                raise WorkerError("worker_unkillable", "Worker hangs", f"process {self.pid} does not end")
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _has_ended_within(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self._process.wait()
        except TimeoutError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        """Signal the worker's process group, which is its own, so that nothing it started stays behind."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            logger.debug("worker %d had already ended", self.pid)

    @property
    def _stdout(self) -> asyncio.StreamReader:
        return _piped(self._process.stdout)

    @property
    def _stderr(self) -> asyncio.StreamReader:
        return _piped(self._process.stderr)


def describe_exit(status: int) -> str:
    """Return an exit status in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def ended_early(status: int, last_words: str) -> WorkerError:
    """Return the error for a program that ended before its ready line.

    `worker_unusable`: it ended by itself, and nothing it says gives hope that it will not do so again.

    Args:
        status: its exit status; negative: the signal that ended it.
        last_words: what it said of itself; empty: nothing.
    """
    is_signal = status < 0 or status > SHELL_SIGNAL_STATUS
    is_passing = status == EXIT_CANNOT_SERVE and bool(last_words) and not last_words.endswith(MISSING_EXTRA)
    is_unusable = not is_signal and not is_passing
    why = last_words or ("is it a meshnet-worker?" if is_unusable else "")
    message = f"the worker ended before it was ready ({describe_exit(status)})" + (f": {why}" if why else "")
    return WorkerError("worker_unusable" if is_unusable else "worker_not_ready", "Worker did not start", message)


def _piped(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    if stream is None:
        raise WorkerError("worker_not_ready", "Worker did not start", "its output is not connected")
    return stream


def _is_ready_line(line: bytes) -> bool:
    try:
        value = json.loads(line)
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("ready") is True


async def _log_lines(stream: asyncio.StreamReader, note: Callable[[str], None] | None = None) -> None:
    """Log what the worker prints, as far as it is not too much, and pass it to `note`; ends with the stream.

    All of it is read, so that the pipe never fills.
    """
    budget = LineBudget(time.monotonic())
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue  # longer than the limit: the reader dropped it
        if not line:
            return
        # Libraries quote what files say, and what is logged may stand on a terminal.
        words = printable(line.decode("utf-8", "replace").rstrip(), LINE_LIMIT_BYTES)
        if note is not None:
            note(words)
        left_out = budget.take(time.monotonic())
        if left_out:
            logger.warning("worker: %d lines are not shown", left_out)
        if left_out is not None:
            logger.info("worker: %s", words)
