"""Opens and closes this node's stages of the site's routes.

Invariants: a stage is open on the worker and, if it needs the relay, bound there, or neither. Every request is answered
exactly once (`StageOpened` or `StageRefused`). If an open stage ends without the site's request, the site is told
exactly once (`StageEnded`). Closing is idempotent and wins over an opening in progress. One event loop; the tasks here
are owned and drained here.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from meshnet.constants import SESSION_ID_BYTES
from meshnet.errors import MeshnetError, WorkerError, describe_unforeseen
from meshnet.failure_codes import FailureCode
from meshnet.ids import SessionKey
from meshnet.member_events import Binding
from meshnet.v1 import control_pb2, session_pb2
from node_app.worker.refusal import StageRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from node_app.relay.packet_queue import PacketQueue
    from node_app.worker.client import WorkerClient

logger = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 5.0
OPENING_MAX = 64

# Beside the windows of its edges a session may hold acks, closes and the token events of one acknowledgement window.
CONTROL_BYTES: Final = 64 * 1024


class RelayBinder(Protocol):
    """The part of the data connection that a stage uses."""

    async def bind(self, binding: Binding, signed_ticket: bytes, queue_bytes: int) -> None:
        """Bind this node to its stage of a session; raises StageRefusedError if the relay refuses."""

    def unbind(self, binding: Binding) -> None:
        """Leave a session at the relay. Idempotent."""


class StageHost(Protocol):
    """The part of the agent that stages use. Called on the event loop; must not block."""

    def check_admission(self, request: control_pb2.OpenStage) -> None:
        """Raise StageRefusedError if this node cannot open the stage now."""

    def serving_worker(self) -> WorkerClient:
        """Return the worker that serves now; raise StageRefusedError if none does."""

    def send_to_site(self, message: control_pb2.NodeMessage) -> None:
        """Send the site an answer to its request, or the news that a stage has ended."""

    def on_sessions_changed(self) -> None:
        """Note that a session opened or ended."""


@dataclass(slots=True)
class OpenStage:
    """A stage that is being opened or is open.

    Attributes:
        key: session and epoch.
        stage: the number of this node's stage on the route, from 0.
        request_id: number of the site's request to open the stage; the answer names it.
        queue_bytes: the most bytes of its packets that may wait, for the worker and for the relay each.
        task: the task that opens the stage; None once it is done.
        is_open: the site was told that it is open.
        worker_reason: code and message with which the worker failed the session; None if it did not.
    """

    key: SessionKey
    stage: int
    request_id: int
    queue_bytes: int
    task: asyncio.Task[None] | None = None
    is_open: bool = False
    worker_reason: tuple[str, str] | None = None

    @property
    def binding(self) -> Binding:
        """The session and stage number by which the relay knows this stage."""
        return Binding(self.key, self.stage)


class StageKeeper:
    """Opens and closes stages. `to_worker`: the queue of their packets for the worker. Not thread-safe."""

    def __init__(self, relay: RelayBinder, to_worker: PacketQueue, host: StageHost) -> None:
        self._relay = relay
        self._to_worker = to_worker
        self._host = host
        self._stages: dict[SessionKey, OpenStage] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def keys(self) -> frozenset[SessionKey]:
        """Return the sessions that are open here."""
        return frozenset(key for key, stage in self._stages.items() if stage.is_open)

    def opening(self) -> frozenset[SessionKey]:
        """Return the sessions that are being opened."""
        return frozenset(key for key, stage in self._stages.items() if not stage.is_open)

    def find(self, key: SessionKey) -> OpenStage | None:
        """Return the stage of a session, whether it is being opened or open; None if there is none."""
        return self._stages.get(key)

    def open(self, request: control_pb2.OpenStage) -> None:
        """Begin to open a stage. The site gets the answer later, when the stage is open or refused."""
        try:
            stage = self._admit(request)
        except StageRefusedError as error:
            self._refuse(request.request_id, error)
            return
        self._stages[stage.key] = stage
        stage.task = asyncio.create_task(self._open(stage, request), name=f"open-{stage.key}")

    def _admit(self, request: control_pb2.OpenStage) -> OpenStage:
        spec = request.spec
        key = SessionKey(spec.session, spec.epoch)
        if len(spec.session) != SESSION_ID_BYTES or spec.epoch < 1 or not 0 <= spec.stage < spec.n_stages:
            raise StageRefusedError(FailureCode.MALFORMED, "the request names no session, epoch and stage")
        if key in self._stages:
            raise StageRefusedError(FailureCode.SESSION_EXISTS, f"{key} is here already")
        self._host.check_admission(request)
        if sum(not stage.is_open for stage in self._stages.values()) >= OPENING_MAX:
            raise StageRefusedError(FailureCode.TOO_MANY_SESSIONS, "too many sessions are being opened")
        for older in [one for one in self._stages if one.session == key.session and one.epoch < key.epoch]:
            self.close(older, "a newer attempt to route the session")
        window_bytes = sum(
            edge.window_bytes for edge in spec.edges if edge.carrier == session_pb2.EdgeSpec.CARRIER_RELAY
        )
        return OpenStage(key, spec.stage, request.request_id, window_bytes + CONTROL_BYTES)

    async def _open(self, stage: OpenStage, request: control_pb2.OpenStage) -> None:
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                contract = await self._open_everywhere(stage, request)
        except MeshnetError as error:
            self._undo_opening(stage, StageRefusedError(error.code, error.message))
        except TimeoutError:
            late = StageRefusedError(FailureCode.NOT_READY, f"the stage was not open within {OPEN_TIMEOUT_S:g} s")
            self._undo_opening(stage, late)
        except Exception as error:  # noqa: BLE001 - the root of the opening
            logger.error("%s: not opened: %s", stage.key, describe_unforeseen(error))
            unforeseen = StageRefusedError(FailureCode.NOT_READY, "the node failed to open the stage")
            self._undo_opening(stage, unforeseen)
        else:
            stage.is_open, stage.task = True, None
            opened = control_pb2.StageOpened(request_id=stage.request_id, contract=contract)
            self._host.send_to_site(control_pb2.NodeMessage(opened=opened))

    async def _open_everywhere(self, stage: OpenStage, request: control_pb2.OpenStage) -> session_pb2.BoundaryContract:
        worker = self._host.serving_worker()
        contract = await worker.open_session(request.spec, OPEN_TIMEOUT_S)
        self._to_worker.admit(stage.key, stage.queue_bytes)
        self._host.on_sessions_changed()
        if request.ticket:
            await self._relay.bind(stage.binding, request.ticket, stage.queue_bytes)
        return contract

    def _undo_opening(self, stage: OpenStage, error: StageRefusedError) -> None:
        stage.task = None
        # If it was released meanwhile, its request has been refused already.
        if self._stages.get(stage.key) is stage:
            self._release(stage, error.code)
            self._refuse(stage.request_id, error)

    def _refuse(self, request_id: int, error: StageRefusedError) -> None:
        logger.info("stage refused: %s (%s)", error.message, error.code)
        refused = control_pb2.StageRefused(request_id=request_id, code=error.code, message=error.message)
        self._host.send_to_site(control_pb2.NodeMessage(refused=refused))

    def close(self, key: SessionKey, reason: str) -> None:
        """Close the stage of a session, even if it is still being opened. Idempotent."""
        stage = self._stages.get(key)
        if stage is None:
            return
        self._release(stage, reason)
        if not stage.is_open:
            self._refuse(
                stage.request_id,
                StageRefusedError(FailureCode.CANCELLED, "the session was closed while it was being opened"),
            )

    def end(self, key: SessionKey, code: str, message: str) -> None:
        """Close a session whose end the site did not ask for, and tell the site. Idempotent."""
        stage = self._stages.get(key)
        if stage is None:
            return
        self._release(stage, code)
        if not stage.is_open:
            self._refuse(stage.request_id, StageRefusedError(code, message))
        else:
            ended = control_pb2.StageEnded(
                session=key.session, epoch=key.epoch, stage=stage.stage, code=code, message=message
            )
            self._host.send_to_site(control_pb2.NodeMessage(ended=ended))

    def end_all(self, code: str, message: str) -> None:
        """End every session, because the worker has ended or the agent ends."""
        for key in list(self._stages):
            self.end(key, code, message)

    def keep_only(self, keep: Iterable[SessionKey]) -> None:
        """Close the open sessions that are not in `keep`, the list that the site sends after a reconnect."""
        for key in self.keys() - frozenset(keep):
            self.close(key, "the site does not know it any more")

    def _release(self, stage: OpenStage, reason: str) -> None:
        """Remove a stage here, unbind it at the relay and begin to close it on the worker."""
        del self._stages[stage.key]
        if stage.task is not None:
            stage.task.cancel()
        self._relay.unbind(stage.binding)
        self._to_worker.drop(stage.key)
        self._host.on_sessions_changed()
        self._close_on_worker(stage.key, reason, stage.task)

    def close_stray(self, key: SessionKey) -> None:
        """Begin to close a session that the worker has and the agent does not know."""
        self._close_on_worker(key, "the agent does not know it", None)

    def _close_on_worker(self, key: SessionKey, reason: str, opening: asyncio.Task[None] | None) -> None:
        try:
            worker = self._host.serving_worker()
        except StageRefusedError:
            return  # the worker has ended, and its sessions with it
        task = asyncio.create_task(_close(worker, key, reason, opening), name=f"close-{key}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def drain(self) -> None:
        """Wait until the worker has closed all stages that ended here; each close has its own deadline."""
        await asyncio.gather(*self._closing)


async def _close(worker: WorkerClient, key: SessionKey, reason: str, opening: asyncio.Task[None] | None) -> None:
    if opening is not None and opening is not asyncio.current_task():
        # It was cancelled; its request must not reach the worker after the close.
        await asyncio.gather(opening, return_exceptions=True)
    try:
        await worker.close_session(key.session, key.epoch, reason)
    except WorkerError as error:
        logger.info("%s: not closed on the worker: %s", key, error.message)
