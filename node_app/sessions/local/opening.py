"""Opens this machine's own sessions on the worker, and closes them.

Invariants: the worker alone admits sessions; local ones and the site's share its KV cells and its number of sessions.
If it has no room, a local request waits its turn for a moment and is then refused. Every session that was opened, or
may have been, is closed on the worker exactly once. One event loop; the tasks here are owned and drained here.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from meshnet.constants import SESSION_ID_BYTES
from meshnet.errors import WorkerError
from meshnet.failure_codes import TITLES, FailureCode
from meshnet.ids import SessionKey
from node_app.sessions.local.machine import LocalRouteError
from node_app.sessions.local.session import LocalSession
from node_app.sessions.local.terms import QUEUE_BYTES, LocalTerms
from node_app.worker.refusal import StageRefusedError

if TYPE_CHECKING:
    from meshnet.v1 import session_pb2
    from node_app.sessions.local.limits import SessionLimits
    from node_app.sessions.local.terms import LocalRequest, LocalShard
    from node_app.sessions.worker_queue import WorkerQueue
    from node_app.worker.client import WorkerClient

logger = logging.getLogger(__name__)

# Codes by which the worker refuses a session because it has no place now.
FULL_CODES: Final = frozenset({FailureCode.KV_EXHAUSTED, FailureCode.TOO_MANY_SESSIONS})


class LocalHost(Protocol):
    """The part of the agent that local sessions use. Called on the event loop; must not block."""

    def serving_worker(self) -> WorkerClient:
        """Return the worker that serves now; raise StageRefusedError if none does."""

    def on_sessions_changed(self) -> None:
        """Note that a session opened or ended."""


class LocalSessions:
    """Opens local sessions and closes them. `to_worker`: the queue of their packets. Not thread-safe."""

    def __init__(self, to_worker: WorkerQueue, host: LocalHost, limits: SessionLimits) -> None:
        self._to_worker = to_worker
        self._host = host
        self._limits = limits
        self._sessions: dict[SessionKey, LocalSession] = {}
        self._opening: set[SessionKey] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()  # first come, first served
        self._waiting = 0

    def keys(self) -> frozenset[SessionKey]:
        """Return the sessions that are open."""
        return frozenset(self._sessions)

    def opening(self) -> frozenset[SessionKey]:
        """Return the sessions that are being opened."""
        return frozenset(self._opening)

    async def open(self, request: LocalRequest, shard: LocalShard) -> LocalSession:
        """Open a session; if the worker has no room, wait for a moment. The prompt is on its way when this returns.

        Raises:
            StageRefusedError: the worker refuses the session, had no room for it in time (`FULL_CODES`), or too many
                wait.
            WorkerError: the worker failed.
            LocalRouteError: the worker has loaded another model.
        """
        if self._waiting >= self._limits.waiting_max:
            raise _busy(FailureCode.TOO_MANY_SESSIONS)
        last_code: str = FailureCode.TOO_MANY_SESSIONS
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.place_wait_s), self._turn:
                while True:
                    try:
                        return await self._open(request, shard)
                    except StageRefusedError as error:
                        if error.code not in FULL_CODES:
                            raise
                        last_code = error.code
                    await asyncio.sleep(self._limits.place_poll_s)
        except TimeoutError:
            raise _busy(last_code) from None
        finally:
            self._waiting -= 1

    def receive(self, key: SessionKey, message: session_pb2.EdgeMessage) -> bool:
        """Handle a worker's message; return False if its session is not a local one."""
        session = self._sessions.get(key)
        if session is not None:
            session.receive(message)
        return session is not None

    def fail(self, key: SessionKey, code: str, message: str) -> None:
        """End a session with a failure that its reader is told; nothing happens if it is not open. Idempotent."""
        session = self._sessions.get(key)
        if session is not None:
            session.fail(code, message)

    def fail_all(self, code: str, message: str) -> None:
        """End every session, because the worker has ended or the agent ends."""
        for key in list(self._sessions):
            self.fail(key, code, message)

    async def drain(self) -> None:
        """Wait until the worker has closed all local sessions that ended; each close has its own deadline."""
        await asyncio.gather(*self._closing)

    async def _open(self, request: LocalRequest, shard: LocalShard) -> LocalSession:
        worker = self._host.serving_worker()
        terms = LocalTerms(SessionKey(secrets.token_bytes(SESSION_ID_BYTES), 1), request, shard)
        self._opening.add(terms.key)
        try:
            contract = await worker.open_session(terms.session_spec(), self._limits.open_timeout_s)
            self._check(terms, contract)
        except StageRefusedError:
            raise  # nothing was opened
        except BaseException:
            # The session may be open on the worker, even if its answer was lost, came too late or did not match.
            self._close_on_worker(terms.key, "not wanted any more")
            raise
        finally:
            self._opening.discard(terms.key)
        return self._start(terms, contract.context_length)

    def _check(self, terms: LocalTerms, contract: session_pb2.BoundaryContract) -> None:
        fits = contract.vocab_size == terms.request.vocabulary_size
        if not fits or contract.contract_digest != terms.shard.contract.contract_digest:
            raise LocalRouteError(FailureCode.CONTRACT_MISMATCH, "The worker has loaded another model than the file's.")

    def _start(self, terms: LocalTerms, context_length: int) -> LocalSession:
        session = LocalSession(terms, context_length, self._to_worker.receive, partial(self._release, terms.key))
        self._sessions[terms.key] = session
        self._to_worker.admit(terms.key, QUEUE_BYTES)
        self._host.on_sessions_changed()
        session.start()
        return session

    def _release(self, key: SessionKey, reason: str) -> asyncio.Task[None] | None:
        """Remove a session here and begin to close it on the worker."""
        del self._sessions[key]
        self._to_worker.drop(key)
        self._host.on_sessions_changed()
        return self._close_on_worker(key, reason)

    def _close_on_worker(self, key: SessionKey, reason: str) -> asyncio.Task[None] | None:
        try:
            worker = self._host.serving_worker()
        except StageRefusedError:
            return None  # the worker has ended, and its sessions with it
        task = asyncio.create_task(_close(worker, key, reason), name=f"close-local-{key}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task


async def _close(worker: WorkerClient, key: SessionKey, reason: str) -> None:
    try:
        await worker.close_session(key.session, key.epoch, reason)
    except WorkerError as error:
        logger.info("%s: not closed on the worker: %s", key, error.message)


def _busy(code: str) -> StageRefusedError:
    title = TITLES[FailureCode(code)]
    message = f"This machine is busy ({title.lower()}); try again when one of its sessions has ended."
    return StageRefusedError(code, message)
