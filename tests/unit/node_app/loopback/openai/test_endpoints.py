"""What nobody foresaw in a request is answered as an error of ours, logged without its words; leaving is foreseen."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, cast

from node_app.loopback.openai.api import API_LIMITS
from node_app.loopback.openai.endpoints import Endpoints
from node_app.loopback.openai.served_model import ServedModel
from node_app.loopback.server import LocalServer, bind_loopback
from tests.unit.node_app.loopback.openai.stand_ins import a_model, an_agent

if TYPE_CHECKING:
    import pytest

    from meshnet.openai.specification import GenerationSpec
    from node_app.loopback.connection import HttpConnection
    from node_app.loopback.openai.answering import Answering

DEADLINE_S = 5.0
PROMPT = "a secret of the user's"


class Mistaken:
    """Fails with words of the request."""

    async def answer(self, connection: HttpConnection, spec: GenerationSpec) -> None:
        raise KeyError(PROMPT)


async def ask(port: int, body: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_mistake_of_ours_is_told_without_the_request(caplog: pytest.LogCaptureFixture) -> None:
    listening = bind_loopback(0)
    port = listening.getsockname()[1]
    endpoints = Endpoints(port, ServedModel(an_agent(), a_model()), cast("Answering", Mistaken()), API_LIMITS)
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": PROMPT}]}).encode()
    async with (
        asyncio.timeout(DEADLINE_S),
        LocalServer(listening, endpoints.serve, endpoints.refuse, API_LIMITS),
    ):
        answer = await ask(port, body)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b'"internal_error"' in answer
    assert "KeyError" in caplog.text
    assert "in answer" in caplog.text  # where it was
    assert PROMPT not in caplog.text + answer.decode()


async def test_clients_that_leave_without_a_request_leave_no_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    listening = bind_loopback(0)
    port = listening.getsockname()[1]
    endpoints = Endpoints(port, ServedModel(an_agent(), a_model()), cast("Answering", Mistaken()), API_LIMITS)
    async with (
        asyncio.timeout(DEADLINE_S),
        LocalServer(listening, endpoints.serve, endpoints.refuse, API_LIMITS),
    ):
        for sent in (b"", b"POST /v1/chat"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            writer.write_eof()
            await reader.read()
            writer.close()
    assert [record.getMessage() for record in caplog.records if record.name.startswith("node_app")] == []
