"""The worker's process: starts it, waits until it is ready, logs its output and ends it.

Invariants: the worker dies with the agent, however the agent dies (the kernel sends it SIGKILL, and the worker watches
its parent itself). Its environment has no variable named MESHNET_*, so no token. Every wait has a deadline. `end` is
idempotent and leaves neither a process nor a task behind. Used from the event loop of the main thread only, since the
kernel kills the worker when the *thread* that started it ends.
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
# The worker's own messages begin with this; lines of its libraries on the same stream do not.
OWN_PREFIX = "meshnet-worker: "
LAST_MESSAGE_LENGTH_MAX = 200
LAST_MESSAGE_TIMEOUT_S = 1.0

# Exit status of a worker that cannot serve and says why, for example because its port is taken; it may serve later.
EXIT_CANNOT_SERVE = 1
# The worker's message ends with this if a package of Python is missing.
MISSING_EXTRA = " [missing_extra]"
# If a signal ends a program that a shell runs, the shell's exit status is this plus the signal's number.
SHELL_SIGNAL_STATUS = 128


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """The program and the options with which a worker is started.

    Attributes:
        program: absolute path.
        socket_path: the Unix socket on which the worker listens for the agent; its directory has the mode 0700.
        link_listen: `host:port` on which the worker listens for peers; empty if it must not.
        local_links: returns the directory (mode 0700) in which workers of this user and machine listen for each other;
            None if they use the network only. Called at each start, since the directory may have been removed
            meanwhile.
    """

    program: Path
    socket_path: Path
    link_listen: str
    local_links: Callable[[], Path | None]

    def arguments(self, parent_pid: int) -> list[str]:
        """Return the command line of a worker that ends if process `parent_pid` does."""
        line = [str(self.program), "--socket", str(self.socket_path), "--parent-pid", str(parent_pid)]
        if self.link_listen:
            line += ["--link-listen", self.link_listen]
        links = self.local_links()
        if links is not None:
            line += ["--local-links", str(links)]
        return line


def find_worker_program(asked: Path | None) -> Path:
    """Return the path of the worker program: `asked`, else the checkout's build, else the one on PATH.

    Raises:
        WorkerError: there is no such program.
    """
    installed = shutil.which(WORKER_PROGRAM)
    built = built_folder() / WORKER_PROGRAM
    candidates = [asked] if asked is not None else [built, *([Path(installed)] if installed else [])]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.resolve()
    place = str(asked) if asked is not None else f"{BUILD_FOLDER / WORKER_PROGRAM} or {WORKER_PROGRAM} on PATH"
    raise WorkerError("worker_missing", "No worker program", f"no program at {place}; `make native` builds it")


def worker_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the worker's environment: without Meshnet's variables, which hold tokens.

    GGML_NO_BACKTRACE keeps ggml from starting a debugger if it aborts.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("MESHNET_")}
    return kept | {"GGML_NO_BACKTRACE": "1"}


class WorkerProcess:
    """One running worker. Owns the process and the tasks that read its output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._pumps: list[asyncio.Task[None]] = []
        self._last_message = ""

    @property
    def pid(self) -> int:
        """The process id of the worker."""
        return self._process.pid

    @classmethod
    async def start(cls, command: WorkerCommand, ready_timeout_s: float) -> WorkerProcess:
        """Start a worker and return when it listens.

        Raises:
            WorkerError: it cannot be run, it ended, or it printed no ready line in time; nothing is left running.
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
                start_new_session=True,  # so Ctrl-C reaches only the agent, which then ends the worker in order
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
        errors = asyncio.create_task(_log_lines(self._stderr, self._note_message), name="worker-stderr")
        self._pumps.append(errors)
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._stdout.readline()
                status = None if line else await self._process.wait()
        except TimeoutError as error:
            message = f"the worker was not ready within {timeout_s:g} s"
            raise WorkerError("worker_not_ready", "Worker did not start", message) from error
        except ValueError as error:
            message = "the worker's first line is too long"
            raise WorkerError("worker_not_ready", "Worker did not start", message) from error
        if status is not None:
            await asyncio.wait([errors], timeout=LAST_MESSAGE_TIMEOUT_S)
            raise ended_early(status, self._last_message)
        if not _is_ready_line(line):
            message = "the worker's first line is not a ready line"
            raise WorkerError("worker_not_ready", "Worker did not start", message)
        self._pumps.append(asyncio.create_task(_log_lines(self._stdout), name="worker-stdout"))

    def _note_message(self, line: str) -> None:
        if line.startswith(OWN_PREFIX):
            self._last_message = line.removeprefix(OWN_PREFIX)[:LAST_MESSAGE_LENGTH_MAX]

    async def wait(self) -> int:
        """Wait for the process to end and return its exit status; negative if a signal ended it."""
        return await self._process.wait()

    async def end(self, grace_s: float) -> None:
        """Ask the process to end, wait `grace_s` at most, then kill it and its children. Idempotent.

        Raises:
            WorkerError: it still exists KILL_TIMEOUT_S after it was killed, because it hangs in a device.
        """
        if self._process.returncode is None and grace_s > 0:
            self._signal(signal.SIGTERM)
            if not await self._has_ended_within(grace_s):
                logger.warning("worker %d did not end within %g s, killing it", self.pid, grace_s)
        if self._process.returncode is None:
            self._signal(signal.SIGKILL)  # ends a stopped process too
            if not await self._has_ended_within(KILL_TIMEOUT_S):
                message = f"the worker, process {self.pid}, does not end; it may hang in a device: restart the machine"
                raise WorkerError("worker_unkillable", "Worker hangs", message)
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
        """Send a signal to the worker and its children: they form a process group of their own."""
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
    """Describe an exit status for people; if it is negative, a signal of that number ended the process."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def ended_early(status: int, last_message: str) -> WorkerError:
    """Return the error for a program that ended before its ready line.

    The code is `worker_not_ready` if it may start at another try: a signal ended it, or its message names a reason that
    can pass. Else it is `worker_unusable`.

    Args:
        status: the program's exit status; if it is negative, a signal of that number ended the program.
        last_message: the worker's last message, without the prefix; empty if it printed none.
    """
    is_signal = status < 0 or status > SHELL_SIGNAL_STATUS
    is_passing = status == EXIT_CANNOT_SERVE and bool(last_message) and not last_message.endswith(MISSING_EXTRA)
    is_unusable = not is_signal and not is_passing
    reason = last_message or ("is it a meshnet-worker?" if is_unusable else "")
    message = f"the worker ended before it was ready ({describe_exit(status)})" + (f": {reason}" if reason else "")
    return WorkerError("worker_unusable" if is_unusable else "worker_not_ready", "Worker did not start", message)


def _piped(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    if stream is None:
        raise WorkerError("worker_not_ready", "Worker did not start", "the worker's output is not connected")
    return stream


def _is_ready_line(line: bytes) -> bool:
    try:
        value = json.loads(line)
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("ready") is True


async def _log_lines(stream: asyncio.StreamReader, note: Callable[[str], None] | None = None) -> None:
    """Log the lines of a stream within a LineBudget, and pass all of them to `note`; returns when the stream ends.

    It reads on even if lines are omitted, since a full pipe would stop the worker.
    """
    budget = LineBudget(time.monotonic())
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue  # the line was longer than LINE_LIMIT_BYTES, and the reader dropped it
        if not line:
            return
        # Libraries quote text from files, and the log may be shown on a terminal.
        text = printable(line.decode("utf-8", "replace").rstrip(), LINE_LIMIT_BYTES)
        if note is not None:
            note(text)
        omitted = budget.take(time.monotonic())
        if omitted:
            logger.warning("worker: %d lines are not shown", omitted)
        if omitted is not None:
            logger.info("worker: %s", text)
