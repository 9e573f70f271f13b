"""The relay as a child process of `meshnet site serve`.

Invariants: if the relay is started from the main thread, it ends with this process, however this process ends. If the
relay ends, it is started again on the same port, with backoff. After `stop` no relay runs. A `RelayProcess` lives on
one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from typing import TYPE_CHECKING, Final

from meshnet.backoff import Backoff
from meshnet.errors import MeshnetError

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

READY_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 5.0
MAX_LINE_BYTES: Final = 64 * 1024
RESTART: Final = Backoff(first_s=0.2, longest_s=10.0)
# If a relay ran this long, its failure counts as the first, and the next one is started after the shortest delay.
STABLE_AFTER_S: Final = 30.0


class RelayStartError(MeshnetError):
    """The relay did not start."""

    def __init__(self, message: str) -> None:
        super().__init__("relay_failed", "The relay did not start", message)


class RelayProcess:
    """Keeps one relay running: starts it, restarts it if it ends, and stops it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the relay; None if none runs."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the relay and wait until it listens.

        Raises:
            RelayStartError: the relay ended, or did not print its ready line within READY_TIMEOUT_S.
        """
        started_s = time.monotonic()
        await self._launch()
        self._keeper = asyncio.create_task(self._keep(started_s), name="relay keeper")

    async def stop(self) -> None:
        """End the relay and restart it no more; idempotent."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        await self._end_process()

    async def _launch(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
        )
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await _read_ready_line(self._process)
        except TimeoutError as error:
            await self._end_process()
            raise RelayStartError(f"it did not say within {READY_TIMEOUT_S:g} s that it is ready") from error
        except RelayStartError:
            await self._end_process()
            raise

    async def _keep(self, started_s: float) -> None:
        failures = 0
        while True:
            status = await self._wait_for_end()
            failures = 1 if time.monotonic() - started_s >= STABLE_AFTER_S else failures + 1
            delay_s = RESTART.delay_s(failures, random.random())  # noqa: S311 - jitter
            logger.error("the relay ended with status %s; starting it again in %.1f s", status, delay_s)
            await asyncio.sleep(delay_s)
            started_s = time.monotonic()
            try:
                await self._launch()
            except RelayStartError as error:
                logger.error("%s", error)

    async def _wait_for_end(self) -> int | None:
        process = self._process
        if process is None:
            return None
        # Drain its output, so that it never blocks on a full pipe.
        if process.stdout is not None:
            while await process.stdout.read(MAX_LINE_BYTES):
                pass
        return await process.wait()

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _read_ready_line(process: asyncio.subprocess.Process) -> None:
    if process.stdout is None:
        raise RelayStartError("its output cannot be read")
    line = await process.stdout.readline()
    if not line:
        raise RelayStartError(f"it ended with status {await process.wait()}")
    try:
        document = json.loads(line)
    except ValueError as error:
        raise RelayStartError("its first line is not JSON") from error
    if not isinstance(document, dict) or document.get("ready") is not True:
        raise RelayStartError("its first line does not say that it is ready")
