"""Functions by which the rest of the site opens and closes stages on nodes.

Invariants: `open_stage` returns or raises within its timeout. If an opening is not confirmed, or the caller is
cancelled, the stage is closed again. News of an open session arrives on its reply channel as `StageNews`.

Everything here runs on the site's event loop. The messages on the channel layer hold plain values only: a node's
connection gets `open_stage`, `close_stage` and `drop_connection`; an answer channel gets `stage_answer`; a reply
channel gets `stage_ended` and `node_gone`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.errors import RouteError
from meshnet.failure_codes import FailureCode, title_of
from meshnet.ids import SessionKey
from meshnet.v1 import control_pb2
from tracker_site import database
from tracker_site.control_plane.channel_messages import channel_layer, new_channel
from tracker_site.control_plane.open_stages import open_stages
from tracker_site.nodes.presence import current_channel

if TYPE_CHECKING:
    from tracker_site.control_plane.channel_messages import (
        CloseStageMessage,
        DropConnectionMessage,
        OpenStageMessage,
        StageAnswerMessage,
        StageNewsMessage,
    )
    from tracker_site.nodes.refusals import ControlRefusalCode

# The connection's own deadline passes first, so the answer normally says why the stage was not opened.
ANSWER_MARGIN_S: Final = 0.25


class StageError(RouteError):
    """A stage cannot be opened, or is lost.

    Attributes:
        node_id: the stage's node.
        stage: the stage's number on its route, from 0.
    """

    def __init__(self, code: str, message: str, node_id: str, stage: int) -> None:
        super().__init__(code, title_of(code, "Stage refused"), message)
        self.node_id = node_id
        self.stage = stage


@dataclass(frozen=True, slots=True)
class StageNews:
    """A session is over on one node, or the node's control connection is gone.

    Attributes:
        kind: "stage_ended" or "node_gone".
        stage: the stage's number on its route, from 0; None unless the node itself reported the end.
    """

    kind: str
    node_id: str
    key: SessionKey
    stage: int | None
    code: str
    message: str


async def new_reply_channel() -> str:
    """Return a new channel, from which only this process receives, to be `open_stage`'s `reply_channel`."""
    return await new_channel()


async def receive_news(reply_channel: str) -> StageNews:
    """Wait for the next news on a reply channel and return it."""
    message: StageNewsMessage = await channel_layer().receive(reply_channel)
    return StageNews(
        kind=message["type"],
        node_id=message["node_id"],
        key=SessionKey(message["session"], message["epoch"]),
        stage=message["stage"],
        code=message["code"],
        message=message["message"],
    )


async def open_stage(
    node_id: str, request: control_pb2.OpenStage, *, reply_channel: str, timeout_s: float
) -> control_pb2.StageOpened:
    """Ask a node to open a stage and wait for its answer.

    Args:
        node_id: the node.
        request: the terms, without `request_id`, which the node's connection sets.
        reply_channel: the channel that gets later news of the session.
        timeout_s: how long the node's answer is awaited.

    Raises:
        StageError: if the node refuses, does not answer in time or is not connected.
    """
    spec = request.spec
    node_channel = await database.read(current_channel, node_id)
    if not node_channel:
        raise StageError(FailureCode.STAGE_LOST, "the node is not connected", node_id, spec.stage)
    layer = channel_layer()
    answer_channel = await new_channel()
    message: OpenStageMessage = {
        "type": "open_stage",
        "open": request.SerializeToString(),
        "reply_channel": reply_channel,
        "answer_channel": answer_channel,
        "timeout_s": timeout_s,
    }
    is_answered = False
    try:
        async with asyncio.timeout(timeout_s + ANSWER_MARGIN_S):
            await layer.send(node_channel, message)
            answer: StageAnswerMessage = await layer.receive(answer_channel)
        is_answered = True
    except TimeoutError as error:
        raise StageError(FailureCode.STAGE_LOST, "the node did not answer in time", node_id, spec.stage) from error
    finally:
        if not is_answered:
            await asyncio.shield(_close(node_channel, node_id, spec.session, spec.epoch, "opening was given up"))
    if answer["opened"] is None:
        raise StageError(answer["code"], answer["message"], node_id, spec.stage)
    return control_pb2.StageOpened.FromString(answer["opened"])


async def close_stage(node_id: str, session: bytes, epoch: int, reason: str) -> None:
    """Close a session on a node. Idempotent.

    If the node is not connected, nothing is sent. When it connects again, it lists its sessions, and the site tells it
    to keep the wanted ones; this session is not among them.
    """
    node_channel = await database.read(current_channel, node_id)
    await _close(node_channel, node_id, session, epoch, reason)


async def _close(node_channel: str, node_id: str, session: bytes, epoch: int, reason: str) -> None:
    open_stages.remove(node_id, SessionKey(session, epoch))
    if node_channel:
        message: CloseStageMessage = {"type": "close_stage", "session": session, "epoch": epoch, "reason": reason}
        await channel_layer().send(node_channel, message)


async def drop_connection(node_id: str, code: ControlRefusalCode, message: str) -> None:
    """Send the node a refusal and close its control connection; do nothing if it has none."""
    node_channel = await database.read(current_channel, node_id)
    if node_channel:
        drop: DropConnectionMessage = {"type": "drop_connection", "code": code, "message": message}
        await channel_layer().send(node_channel, drop)
