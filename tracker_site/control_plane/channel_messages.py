"""Messages on the channel layer between the site's parts and a node's control connection; plain values only.

Invariant: in a message to a connection, `type` is the name of the consumer's method that handles it. On an answer or
reply channel, no method is called, and `type` tells the receiver which message it has.
"""

from __future__ import annotations

from typing import Literal, TypedDict, cast

from channels.layers import BaseChannelLayer, get_channel_layer


class OpenStageMessage(TypedDict):
    """Asks a node's connection to open a stage.

    Attributes:
        open: a serialised OpenStage.
        reply_channel: gets a `StageNewsMessage` when the open stage ends.
        answer_channel: gets the one `StageAnswerMessage`.
        timeout_s: how long the connection waits for the node.
    """

    type: Literal["open_stage"]
    open: bytes
    reply_channel: str
    answer_channel: str
    timeout_s: float


class CloseStageMessage(TypedDict):
    """Asks a node's connection to close a session on the node."""

    type: Literal["close_stage"]
    session: bytes
    epoch: int
    reason: str


class DropConnectionMessage(TypedDict):
    """Asks a node's connection to send the node a refusal and then close. `code` is a `ControlRefusalCode`."""

    type: Literal["drop_connection"]
    code: str
    message: str


class StageAnswerMessage(TypedDict):
    """Answers an `OpenStageMessage`.

    `opened` is a serialised StageOpened; if it is None, the stage was not opened, and `code` and `message` say why.
    """

    type: Literal["stage_answer"]
    opened: bytes | None
    code: str
    message: str


class StageNewsMessage(TypedDict):
    """Tells a reply channel that the session ended on the node, or that the node's control connection is gone.

    `stage` is None unless the node itself reported the end.
    """

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

    Its name has the layer's own prefix, as the names of the consumers' channels have. Over Redis a process receives for
    one prefix at a time, so with a second prefix messages would wait for seconds.
    """
    return cast("str", await channel_layer().new_channel())
