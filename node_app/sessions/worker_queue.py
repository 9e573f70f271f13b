"""The packets that wait for the worker's bridge.

Invariants: those of `PacketQueue`. If a session overflows, it is ended; no other session waits for it. The queue
outlives a worker: each session is dropped from it when it ends. One event loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from meshnet.failure_codes import FailureCode
from node_app.relay.packet_queue import PacketQueue, QueueResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meshnet.ids import SessionKey
    from meshnet.packets import Packet

# One write to the worker; well under gRPC's limit on the channel.
BATCH_BYTES = 1024 * 1024


class WorkerQueue(PacketQueue):
    """A packet queue whose reader can wait for packets. If a session overflows, `end_session` ends it.

    Args:
        end_session: takes the session's key, a code and a message.
    """

    def __init__(self, end_session: Callable[[SessionKey, str, str], None]) -> None:
        super().__init__()
        self._end_session = end_session
        self._has_packets = asyncio.Event()

    def receive(self, packets: Iterable[Packet]) -> None:
        """Queue packets for the worker; they come from the relay or from this machine's own sessions."""
        for packet in packets:
            if self.offer(packet) is QueueResult.OVERFLOW:
                message = "more in flight than its windows allow"
                self._end_session(packet.key, FailureCode.WINDOW_EXCEEDED, message)
        self._has_packets.set()

    async def next_batch(self) -> list[Packet]:
        """Wait until there is a packet; remove and return packets of up to `BATCH_BYTES` together, at least one."""
        while True:
            self._has_packets.clear()
            packets = self.take(BATCH_BYTES, lambda _: True)
            if packets:
                return packets
            await self._has_packets.wait()
