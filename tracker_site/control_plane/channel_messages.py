"""Messages on the channel layer between the site's parts and a node's connection; plain values only.

Invariant: `type` names the consumer's handler. On an answer or reply channel, it tells the receiver which message came.
"""

from __future__ import annotations

from typing import Literal, TypedDict, cast

from channels.layers import BaseChannelLayer, get_channel_layer


class OpenStageMessage(TypedDict):
    """To a node's connection: ask for a stage; `open` is a serialised OpenStage."""

    type: Literal["open_stage"]
    open: bytes
    reply_channel: str
    answer_channel: str
    timeout_s: float


class CloseStageMessage(TypedDict):
    """To a node's connection: close a session."""

    type: Literal["close_stage"]
    session: bytes
    epoch: int
    reason: str


class DropConnectionMessage(TypedDict):
    """To a node's connection: refuse with a `ControlRefusalCode` and close."""

    type: Literal["drop_connection"]
    code: str
    message: str


class StageAnswerMessage(TypedDict):
    """To an answer channel: a serialised StageOpened, or None with code and message."""

    type: Literal["stage_answer"]
    opened: bytes | None
    code: str
    message: str


class StageNewsMessage(TypedDict):
    """To a reply channel: the session ended on the node, or the node's control connection is gone (stage None)."""

    type: Literal["stage_ended", "node_gone"]
    node_id: str
    session: bytes
    epoch: int
    stage: int | None
    code: str
    message: str


def channel_layer() -> BaseChannelLayer:
    """Return the site's channel layer.

    Raises:
        RuntimeError: if the settings name no channel layer.
    """
    layer = get_channel_layer()
    if layer is None:
        raise RuntimeError("CHANNEL_LAYERS is not set")
    return layer


async def new_channel() -> str:
    """Return a new channel that only this process can receive from.

    All channels have the layer's own prefix, as the consumers' channels have. Over Redis a process receives for one
    prefix at a time, so a second prefix would make the others wait for seconds.
    """
    return cast("str", await channel_layer().new_channel())
