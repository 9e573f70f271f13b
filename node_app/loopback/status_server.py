"""The agent's status and its three levers, on loopback, for the tray and for `meshnet` commands.

Invariants: listens on 127.0.0.1 only; who may use it is decided in `local_http.py`; the address and the token are in
`local_api.json` of the state directory (0600) while the agent runs. Never shows prompts, completions, keys or tokens of
the site; neither does the log, whose last lines it gives. Requests have a deadline and there are few at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self

from node_app.agent.plan import condition
from node_app.agent.reporting import why_not
from node_app.loopback.access import LOOPBACK
from node_app.loopback.local_http import HEAD_LIMIT_BYTES, HttpError, authorise, parse_head, write_response
from node_app.status.local_address import AgentAddress, remove_address, write_address

if TYPE_CHECKING:
    from types import TracebackType

    from node_app.agent.agent import Agent
    from node_app.artifacts.model_file import ModelFile
    from node_app.loopback.local_http import Request
    from node_app.system.logs import RecentLines

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S: Final = 5.0
CONNECTIONS_MAX: Final = 16
TOKEN_BYTES: Final = 32


class LocalApi:
    """Serves while the context lasts. One event loop, that of the agent."""

    def __init__(self, agent: Agent, model: ModelFile, recent: RecentLines, api_url: str | None) -> None:
        self._agent = agent
        self._model = model
        self._api_url = api_url
        self._state_dir = agent.settings.state_dir
        self._recent = recent
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._connections = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0, limit=HEAD_LIMIT_BYTES)
        self._port = self._server.sockets[0].getsockname()[1]
        write_address(self._state_dir, AgentAddress(f"http://{LOOPBACK}:{self._port}", self._token, os.getpid()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_address(self._state_dir)
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                writer.write(await self._answer(reader))
                await writer.drain()
        except (TimeoutError, ConnectionError) as error:
            logger.debug("local request given up: %s", type(error).__name__)
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            self._admit()
            request = parse_head(await _read_head(reader))
            authorise(request, self._port, self._token)
            answer = self._dispatch(request)
        except HttpError as error:
            return write_response(error.status, json.dumps({"error": error.message}).encode())
        return write_response(HTTPStatus.OK, json.dumps(answer).encode())

    def _admit(self) -> None:
        if self._connections > CONNECTIONS_MAX:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once")

    def _dispatch(self, request: Request) -> dict[str, object]:
        match request.method, request.path:
            case "GET", "/status":
                return self._status()
            case "GET", "/log":
                return {"lines": self._recent.tail()}
            case "POST", "/pause":
                self._agent.pause(is_paused=True)
            case "POST", "/resume":
                self._agent.pause(is_paused=False)
            case "POST", "/quit":
                self._agent.quit()
            case _:
                raise HttpError(HTTPStatus.NOT_FOUND, "no such thing here")
        return self._status()

    def _status(self) -> dict[str, object]:
        state, sessions, worker = self._agent.state, self._agent.sessions, self._agent.worker
        status = worker.status
        return {
            "state": condition(state).name.lower(),
            "reason": why_not(state) or state.fatal,
            "self_test": state.worker.self_test.name.lower(),
            "self_test_words": state.worker.self_test_words,
            "notice_code": state.notice_code,
            "notice": state.notice,
            "node_id": state.node_id,
            "name": self._agent.settings.name,
            "site_url": self._agent.settings.site_url,
            "is_control_connected": state.is_control_connected,
            "is_data_connected": state.is_data_connected,
            "is_paused": state.is_paused,
            "model": self._model.paths[0].name,
            "architecture": self._model.architecture,
            "layer_begin": self._model.layers.layer_begin,
            "layer_end": self._model.layers.layer_end,
            "n_layers": self._model.n_layers,
            "carrier": self._agent.settings.carrier.value,
            "worker_pid": state.worker.pid,
            "api_url": self._api_url,
            "sessions": len(sessions.keys()),
            "local_sessions": len(sessions.local.keys()),
            "tokens_per_s": sessions.bridging.tokens_per_s,
            "steps": status.steps if status is not None else 0,
            "rows": status.rows if status is not None else 0,
            "resident_bytes": status.resident_bytes if status is not None else 0,
            "tasks": len(asyncio.all_tasks()),
            "credits_micros": state.earned_micros,
        }


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too long") from error
    except asyncio.IncompleteReadError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the request is cut off") from error
