"""Long and narrow lines between programs of one machine: what passes is delayed, and taken in at a bounded rate.

    python -m tests.simulators.long_lines ADDRESS...

A process of its own, so that neither a test's loop nor the programs' own work moves its clock. Each ADDRESS is what one
line leads to, a `host:port` or the path of a Unix socket; the first output line is a JSON list of what the lines listen
on (ports of 127.0.0.1; paths beside the sockets). Each input line, `LATENCY_MS BYTES_PER_S` (0: no limit), sets all
lines from then on and is answered by an empty one. It ends with its input.

Each direction of a line is a transmitter and a wire: bytes leave one after the other at the rate, and arrive the
latency later, in order. What a direction holds is bounded; beyond that its sender is not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import selectors
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# What a router and the wire behind it hold, in bytes, in each direction of a line.
HELD_BYTES_MAX: Final = 16 * 1024 * 1024
READ_BYTES: Final = 256 * 1024
# Pieces in which a narrow line takes bytes in: the end of one message does not wait for the next one's.
PIECE_BYTES: Final = 16 * 1024
LOCALHOST: Final = "127.0.0.1"


@dataclass
class Setting:
    """What all lines are like now."""

    latency_s: float = 0.0
    bytes_per_s: float = 0.0


@dataclass
class Direction:
    """One direction of a line; the connections on it share the transmitter.

    Attributes:
        free_s: when the transmitter has sent all that it was given.
    """

    free_s: float = 0.0

    def arrival_s(self, size_bytes: int, setting: Setting, now_s: float) -> float:
        """When a piece that is given to the transmitter now arrives."""
        sending_s = size_bytes / setting.bytes_per_s if setting.bytes_per_s else 0.0
        self.free_s = max(now_s, self.free_s) + sending_s
        return self.free_s + setting.latency_s


@dataclass
class Wire:
    """What is on its way in one direction of one connection; `pieces`: (arrival, bytes), in order."""

    direction: Direction
    setting: Setting
    pieces: deque[tuple[float, bytes]] = field(default_factory=deque)
    held_bytes: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    freed: asyncio.Event = field(default_factory=asyncio.Event)

    async def take_in(self, reader: asyncio.StreamReader) -> None:
        """Read until the end, which is sent on as an empty piece."""
        loop = asyncio.get_running_loop()
        data = b"-"
        while data:
            data = await reader.read(READ_BYTES)
            step = PIECE_BYTES if self.setting.bytes_per_s else READ_BYTES
            for at in range(0, max(1, len(data)), step):
                piece = data[at : at + step]
                self.pieces.append((self.direction.arrival_s(len(piece), self.setting, loop.time()), piece))
            self.held_bytes += len(data)
            self.changed.set()
            while self.held_bytes > HELD_BYTES_MAX:
                self.freed.clear()
                await self.freed.wait()

    async def give_out(self, writer: asyncio.StreamWriter) -> None:
        """Write each piece when it arrives."""
        loop = asyncio.get_running_loop()
        while True:
            while not self.pieces:
                self.changed.clear()
                await self.changed.wait()
            arrival_s = self.pieces[0][0]
            if (early_s := arrival_s - loop.time()) > 0:
                await asyncio.sleep(early_s)
            due = []
            while self.pieces and self.pieces[0][0] <= loop.time():
                due.append(self.pieces.popleft()[1])
            self.held_bytes -= sum(map(len, due))
            self.freed.set()
            writer.write(b"".join(due))
            await writer.drain()
            if due and not due[-1]:
                writer.close()
                return


class Line:
    """Accepts connections and leads each to `target`."""

    def __init__(self, target: str, setting: Setting) -> None:
        self._target = target
        self._setting = setting
        self._there, self._back = Direction(), Direction()

    async def listen(self) -> str:
        """Begin, and return where."""
        if "/" in self._target:
            path = Path(self._target).with_suffix(".line")
            await asyncio.start_unix_server(self._visit, path)
            return str(path)
        server = await asyncio.start_server(self._visit, LOCALHOST, 0)
        return f"{LOCALHOST}:{server.sockets[0].getsockname()[1]}"

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await self._connect()
        there, back = Wire(self._there, self._setting), Wire(self._back, self._setting)
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(
                there.take_in(reader),
                there.give_out(there_writer),
                back.take_in(there_reader),
                back.give_out(writer),
            )

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if "/" in self._target:
            return await asyncio.open_unix_connection(self._target)
        host, _, port = self._target.rpartition(":")
        return await asyncio.open_connection(host, int(port))


async def serve(targets: list[str]) -> None:
    """Serve until the input ends."""
    setting = Setting()
    print(json.dumps([await Line(target, setting).listen() for target in targets]), flush=True)
    orders = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(orders)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while order := await orders.readline():
        latency_ms, rate = order.split()
        setting.latency_s, setting.bytes_per_s = float(latency_ms) / 1000, float(rate)
        print(flush=True)


def main() -> None:
    """Serve on a loop whose timers are true to microseconds: epoll's are rounded up to milliseconds."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(serve(sys.argv[1:]))


if __name__ == "__main__":
    main()
