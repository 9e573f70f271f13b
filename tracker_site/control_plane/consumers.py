"""The socket and clock of a node's control connection; `node_connection` decides how messages are answered.

Invariants: the database is used only for hellos, reports and the end of the connection, never to open or close a stage.
A report never delays a stage's answer. The end is recorded once, even if the server cancels the connection at shutdown.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import TYPE_CHECKING, Final

from channels.exceptions import ChannelFull
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from meshnet.failure_codes import FailureCode
from meshnet.ids import SessionKey
from meshnet.v1 import control_pb2
from tracker_site import database
from tracker_site.billing.ledger import earned_micros
from tracker_site.control_plane.channel_messages import channel_layer
from tracker_site.control_plane.control_events import (
    Ended,
    Event,
    HelloProven,
    HelloUnusable,
    Opened,
    OpenFailed,
    OpenRequest,
    Reported,
)
from tracker_site.control_plane.node_connection import ConnectionTerms, NodeConnection
from tracker_site.control_plane.open_stages import open_stages
from tracker_site.control_plane.owner_earnings import EarningsTurn
from tracker_site.control_plane.report_writer import ReportWriter
from tracker_site.nodes import presence
from tracker_site.nodes.refusals import BLOCKED_MESSAGE, ControlRefusalCode
from tracker_site.nodes.site_key import site_signing_key

if TYPE_CHECKING:
    from tracker_site.control_plane.channel_messages import (
        CloseStageMessage,
        DropConnectionMessage,
        OpenStageMessage,
        StageAnswerMessage,
        StageNewsMessage,
    )
    from tracker_site.nodes.notices import Notice

logger = logging.getLogger(__name__)

# A code of the private range: Daphne raises if it is given the protocol's own 1008. The refusal before it says why.
CLOSE_REFUSED: Final = 4008
NONCE_BYTES: Final = 32


class NodeControlConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """Runs one control connection on the event loop: its socket, its deadlines and its database calls."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = NodeConnection(_terms(), time.monotonic())
        self.node_id = ""
        self._reports: ReportWriter | None = None
        self._earnings_turn = EarningsTurn()
        self._clock: asyncio.Task[None] | None = None
        self._clock_moved = asyncio.Event()
        self._is_ended = False

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        """Run the connection; record its end even if the server cancels it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.shield(self._end("the control connection was cut off"))

    # From the node

    async def connect(self) -> None:
        """Accept the socket and send the challenge."""
        await self.accept()
        self._clock = asyncio.create_task(self._run_clock())
        await self._settle()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle one message; text is refused, since messages are binary."""
        if text_data is not None:
            self.connection.refuse(ControlRefusalCode.MALFORMED, "messages are binary")
        else:
            self.connection.receive(bytes_data or b"", time.monotonic())
        await self._settle()

    async def disconnect(self, code: int) -> None:
        """Record the end of the connection; `code` is the WebSocket's close code."""
        await self._end(f"the control connection closed ({code})")

    # From the rest of the site, over the channel layer

    async def open_stage(self, message: OpenStageMessage) -> None:
        """Ask the node to open a stage; `control.open_stage` sends this message and waits for the answer."""
        terms = control_pb2.OpenStage.FromString(message["open"])
        request = OpenRequest(terms, message["answer_channel"], message["reply_channel"], message["timeout_s"])
        self.connection.open_stage(request, time.monotonic())
        await self._settle()

    async def close_stage(self, message: CloseStageMessage) -> None:
        """Tell the node to close a session, and send no more news of that session to its reply channel."""
        key = SessionKey(message["session"], message["epoch"])
        open_stages.remove(self.node_id, key)
        self.connection.close_stage(key, message["reason"])
        await self._settle()

    async def drop_connection(self, message: DropConnectionMessage) -> None:
        """Refuse and close the connection, because a newer one replaces it or an administrator asks for it."""
        self.connection.refuse(ControlRefusalCode(message["code"]), message["message"])
        await self._settle()

    # Inside

    async def _settle(self) -> None:
        """Send all messages and handle all events of `connection`; if it is closed, close the socket."""
        while True:
            outgoing, events = self.connection.messages_to_send(), self.connection.events()
            for data in outgoing:
                await self.send(bytes_data=data)
            for event in events:
                await self._handle(event)
            if not outgoing and not events:
                break
        self._clock_moved.set()
        if self.connection.is_closed:
            await self.close(CLOSE_REFUSED)

    async def _run_clock(self) -> None:
        while (deadline_s := self.connection.next_deadline_s()) is not None:
            self._clock_moved.clear()
            try:
                async with asyncio.timeout(max(0.0, deadline_s - time.monotonic())):
                    await self._clock_moved.wait()
            except TimeoutError:
                self.connection.tick(time.monotonic())
                await self._settle()

    async def _handle(self, event: Event) -> None:
        match event:
            case HelloProven():
                await self._identify(event)
            case HelloUnusable(public_key, software_version, reason):
                await database.write(presence.note_unusable, public_key, software_version, reason)
            case Reported(report):
                if self._reports is not None:
                    self._reports.offer(report)
            case Opened(request, answer):
                open_stages.add(self.node_id, request.key, request.reply_channel)
                await self._answer(request, answer.SerializeToString())
            case OpenFailed(request, code, message):
                await self._answer(request, None, code, message)
            case Ended(key, stage, code, message):
                channel = open_stages.remove(self.node_id, key)
                if channel is not None:
                    await _send(channel, _ended(self.node_id, key, stage, code, message))

    async def _identify(self, hello: HelloProven) -> None:
        try:
            node, replaced = await database.write(
                presence.connect, hello.public_key, self.channel_name, hello.software_version
            )
        except presence.NodeUnknownError:
            self.connection.refuse(
                ControlRefusalCode.UNKNOWN_NODE, "this node is not enrolled; enrol it with a token of your account"
            )
            return
        except presence.NodeBlockedError:
            self.connection.refuse(ControlRefusalCode.NODE_BLOCKED, BLOCKED_MESSAGE)
            return
        self.node_id = str(node.pk)
        if replaced:
            await _send(replaced, _replaced())
        keep, lost = open_stages.reconcile(self.node_id, hello.open_sessions)
        for key, channel in lost.items():
            await _send(channel, _ended(self.node_id, key, None, FailureCode.STAGE_LOST, "the node lost the session"))
        self._reports = ReportWriter(self.node_id, self.channel_name, self._on_stored)
        self.connection.identified(self.node_id, sorted(keep, key=str), time.monotonic())
        logger.info("node %s (%s) connected, %d sessions kept", node.name, self.node_id, len(keep))

    async def _on_stored(self, report_id: int, notice: Notice) -> None:
        is_due = bool(report_id) and self._earnings_turn.take(time.monotonic())
        earned = await database.read(earned_micros, self.node_id) if is_due else None
        self.connection.report_stored(report_id, earned)
        self.connection.tell(notice)
        await self._settle()

    async def _answer(self, request: OpenRequest, opened: bytes | None, code: str = "", message: str = "") -> None:
        await _send(
            request.answer_channel, {"type": "stage_answer", "opened": opened, "code": code, "message": message}
        )

    async def _end(self, reason: str) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self.connection.connection_lost()
        for event in self.connection.events():
            if isinstance(event, OpenFailed):
                await self._answer(event.request, None, event.code, event.message)
        if self._clock is not None:
            self._clock.cancel()
        if self._reports is not None:
            await self._reports.stop()
        if not self.node_id or not await database.write(presence.disconnect, self.node_id, self.channel_name, reason):
            return  # The node was never identified, or another connection is its current one.
        logger.info("node %s: %s", self.node_id, reason)
        for key, channel in open_stages.of_node(self.node_id).items():
            await _send(channel, _gone(self.node_id, key, reason))


def _terms() -> ConnectionTerms:
    return ConnectionTerms(
        nonce=secrets.token_bytes(NONCE_BYTES),
        heartbeat_ms=settings.CONTROL_HEARTBEAT_MS,
        lease_ms=settings.CONTROL_LEASE_MS,
        hello_timeout_s=settings.CONTROL_HELLO_TIMEOUT_S,
        relay_url=settings.RELAY_URL,
        site_public_key=site_signing_key().public_key,
    )


async def _send(channel: str, message: StageAnswerMessage | StageNewsMessage | DropConnectionMessage) -> None:
    try:
        await channel_layer().send(channel, message)
    except ChannelFull:
        # The reader of the channel has stopped reading; it has deadlines of its own, which end its waiting.
        logger.warning("dropped a %s message, because its channel is full: its reader has stopped", message["type"])


def _replaced() -> DropConnectionMessage:
    message = "this node has connected again; if two nodes run with a copy of one key, give each its own state folder"
    return {"type": "drop_connection", "code": ControlRefusalCode.REPLACED, "message": message}


def _ended(node_id: str, key: SessionKey, stage: int | None, code: str, message: str) -> StageNewsMessage:
    return {
        "type": "stage_ended",
        "node_id": node_id,
        "session": key.session,
        "epoch": key.epoch,
        "stage": stage,
        "code": str(code),
        "message": message,
    }


def _gone(node_id: str, key: SessionKey, reason: str) -> StageNewsMessage:
    return {**_ended(node_id, key, None, FailureCode.STAGE_LOST, reason), "type": "node_gone"}
