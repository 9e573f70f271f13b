"""The node's end of a control connection, message by message; every wait has a deadline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from channels.testing import WebsocketCommunicator

from meshnet.keys import SigningKey
from meshnet.v1 import control_pb2
from tests.site import wire
from tracker_site.control_plane.consumers import CLOSE_REFUSED, NodeControlConsumer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DEADLINE_S = 5.0
KEY = SigningKey.from_bytes(b"k" * 32)


class NodeEnd:
    def __init__(self, key: SigningKey) -> None:
        self.key = key
        self.socket = WebsocketCommunicator(NodeControlConsumer.as_asgi(), "/nodes/control")

    async def __aenter__(self) -> Self:
        connected, _ = await self.socket.connect(timeout=DEADLINE_S)
        assert connected
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        if not self.socket.future.done():
            await self.socket.disconnect(code=1001, timeout=DEADLINE_S)

    async def receive(self) -> control_pb2.SiteMessage:
        return control_pb2.SiteMessage.FromString(await self.socket.receive_from(timeout=DEADLINE_S))

    async def send(self, **body: object) -> None:
        await self.socket.send_to(bytes_data=control_pb2.NodeMessage(**body).SerializeToString())

    async def greet(self, *open_sessions: tuple[bytes, int]) -> control_pb2.SiteMessage:
        """Hello; the answer is a welcome or a refusal."""
        challenge = (await self.receive()).challenge
        hello = wire.hello(self.key, challenge.nonce, *open_sessions)
        await self.socket.send_to(bytes_data=hello.SerializeToString())
        return await self.receive()

    async def serve(self, *shards: control_pb2.ShardReport) -> None:
        assert (await self.greet()).WhichOneof("body") == "welcome"
        await self.send(report=wire.report(*(shards or (wire.shard(),))))

    async def accept_stage(self) -> control_pb2.OpenStage:
        message = await self.receive()
        assert message.WhichOneof("body") == "open"
        await self.send(opened=control_pb2.StageOpened(request_id=message.open.request_id, contract=wire.contract()))
        return message.open

    async def refused(self) -> str:
        """The code of the refusal after which the site has closed."""
        message = await self.receive()
        assert message.WhichOneof("body") == "refusal"
        assert await self.closed() == CLOSE_REFUSED
        return message.refusal.code

    async def closed(self) -> int:
        output = await self.socket.receive_output(timeout=DEADLINE_S)
        assert output["type"] == "websocket.close"
        return int(output["code"])


async def eventually(fact: Callable[[], Awaitable[object]]) -> None:
    """Wait until a fact holds, to the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not await fact():  # noqa: ASYNC110 - another connection to the database tells nobody
            await asyncio.sleep(0.01)
