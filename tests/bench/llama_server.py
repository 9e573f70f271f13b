"""llama.cpp's own server as a peer: so many slots, streams over HTTP on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from tests.bench.llama_cpp import program
from tests.bench.programs import ProgramError, running_server
from tests.bench.streams import Newcomer, Stream
from tests.simulators.ports import free_port

_READY_TIMEOUT_S: Final = 60.0
_STREAM_TIMEOUT_S: Final = 120.0
_ASK_AGAIN_S: Final = 0.1
_LOOK_S: Final = 0.002
_DATA: Final = b"data: "


class LlamaServer:
    """A loaded server."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def until_ready(self) -> None:
        """Wait until the model is loaded.

        Raises:
            TimeoutError: it is not.
        """
        async with asyncio.timeout(_READY_TIMEOUT_S):
            while b" 200 " not in await self._status_line():  # noqa: ASYNC110 - each turn is a request
                await asyncio.sleep(_ASK_AGAIN_S)

    async def streams(self, prompt: tuple[int, ...], tokens: int, sessions: int) -> list[Stream]:
        """So many streams at the same time.

        Raises:
            TimeoutError: tokens did not come.
            ProgramError: the server refused, or ended early.
        """
        streams = [Stream(0.0) for _ in range(sessions)]
        await asyncio.gather(*(self._take(stream, prompt, tokens) for stream in streams))
        return streams

    async def disturbed_streams(
        self, prompt: tuple[int, ...], tokens: int, sessions: int, newcomer: Newcomer
    ) -> tuple[list[Stream], Stream]:
        """The same, and a newcomer that asks for one token once every stream has had a third of its own.

        Raises:
            TimeoutError: tokens did not come.
            ProgramError: the server refused, or ended early.
        """
        streams, late = [Stream(0.0) for _ in range(sessions)], Stream(0.0)

        async def comes() -> None:
            while not newcomer.is_due(streams, tokens):  # noqa: ASYNC110 - what is awaited are the others' tokens
                await asyncio.sleep(_LOOK_S)
            await self._take(late, newcomer.prompt(prompt), 1)

        await asyncio.gather(comes(), *(self._take(stream, prompt, tokens) for stream in streams))
        return streams, late

    async def _take(self, stream: Stream, prompt: tuple[int, ...], tokens: int) -> None:
        """Ask for so many tokens, and take them as they come.

        Raises:
            TimeoutError: they did not come.
            ProgramError: the server refused, or ended early.
        """
        asked = {
            "prompt": list(prompt),
            "n_predict": tokens,
            "stream": True,
            "ignore_eos": True,
            "temperature": 0,
            "cache_prompt": False,
            "return_tokens": True,
        }
        body = json.dumps(asked).encode()
        async with asyncio.timeout(_STREAM_TIMEOUT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            stream.asked_s = time.perf_counter()
            writer.write(
                b"POST /completion HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
            )
            async for line in reader:
                if line.startswith(_DATA):
                    at_s = time.perf_counter()
                    stream.tokens_s += [at_s] * len(json.loads(line[len(_DATA) :]).get("tokens", []))
            writer.close()
        if len(stream.tokens_s) < tokens:
            raise ProgramError(f"llama-server gave {len(stream.tokens_s)} of {tokens} tokens")

    async def _status_line(self) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        line = await reader.readline()
        writer.close()
        return line


@contextlib.asynccontextmanager
async def llama_server(preset: str, model: Path, threads: int, slots: int, context: int) -> AsyncIterator[LlamaServer]:
    """Run a server with so many slots of `context` positions each."""
    port = free_port()
    command = [str(program(preset, "llama-server")), "-m", str(model), "-t", str(threads), "-np", str(slots)]
    command += ["-c", str(slots * context), "-fa", "on", "--host", "127.0.0.1", "--port", str(port), "--no-webui"]
    async with running_server(command, port):
        server = LlamaServer(port)
        await server.until_ready()
        yield server
