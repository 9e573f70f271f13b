"""Serves the agent's status and log on loopback, and takes pause, resume and quit, for the tray and `meshnet` commands.

Invariants: listens on 127.0.0.1 only; a request must pass the checks of `access`, carry the bearer token and have no
body. While the agent runs, the address and the token are in `local_api.json` of the state directory (0600). Neither the
status nor the last log lines show prompts, completions, keys or tokens of the site. Requests have a deadline and are
bounded in number.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self

from meshnet.errors import describe_unforeseen
from node_app.agent.plan import condition
from node_app.agent.reporting import why_not
from node_app.loopback.access import LOOPBACK, check_access, has_token
from node_app.loopback.connection import ClientGoneError
from node_app.loopback.limits import ConnectionLimits
from node_app.loopback.refusals import Reason, RequestRefusedError
from node_app.loopback.server import LocalServer, bind_loopback
from node_app.status.local_address import AgentAddress, remove_address, write_address

if TYPE_CHECKING:
    from types import TracebackType

    from node_app.agent.agent import Agent
    from node_app.artifacts.model_file import ModelFile
    from node_app.loopback.connection import Head, HttpConnection
    from node_app.system.logs import RecentLines

logger = logging.getLogger(__name__)

STATUS_LIMITS: Final = ConnectionLimits(connections_max=16, head_max_bytes=8192, head_timeout_s=5.0, stall_s=5.0)
HEADERS_MAX: Final = 64
METHODS: Final = frozenset({"GET", "POST"})
TOKEN_BYTES: Final = 32

_REFUSALS: Final = {
    Reason.NOT_HTTP: "this is not an HTTP request",
    Reason.HEAD_TOO_LARGE: "the head is too long",
    Reason.BODY_TOO_LARGE: "requests must not have a body",
    Reason.BODY_OVERDUE: "requests must not have a body",
    Reason.OTHER_HOST: "the Host header must name this endpoint",
    Reason.OTHER_ORIGIN: "web pages of other origins are not served",
}


class _StatusError(Exception):
    """The request is answered with this HTTP error status and message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class StatusServer:
    """Serves the agent's status, and keeps the address file, while its `async with` block runs on the agent's loop."""

    def __init__(self, agent: Agent, model: ModelFile, recent: RecentLines, api_url: str | None) -> None:
        self._agent = agent
        self._model = model
        self._api_url = api_url
        self._state_dir = agent.settings.state_dir
        self._recent = recent
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        listening = bind_loopback(0)
        self._port = listening.getsockname()[1]
        self._server = LocalServer(listening, self._serve, self._refuse, STATUS_LIMITS)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        write_address(self._state_dir, AgentAddress(f"http://{LOOPBACK}:{self._port}", self._token, os.getpid()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_address(self._state_dir)
        await self._server.__aexit__(kind, error, trace)

    async def _serve(self, connection: HttpConnection) -> None:
        await _answer(connection, *await self._respond(connection))

    async def _refuse(self, connection: HttpConnection) -> None:
        await _answer(connection, HTTPStatus.SERVICE_UNAVAILABLE, _error("too many requests at once"))

    async def _respond(self, connection: HttpConnection) -> tuple[HTTPStatus, dict[str, object]]:
        """Read a request and return its answer; raises ClientGoneError if the client left."""
        try:
            head = await connection.read_head()
            _check_head(head)
            await connection.read_body(head)
            self._authorise(head)
            return HTTPStatus.OK, self._dispatch(head)
        except RequestRefusedError as refused:
            return refused.status, _error(_REFUSALS[refused.reason])
        except _StatusError as error:
            return error.status, _error(error.message)
        except ClientGoneError:
            raise  # not a failure of the node, and the client cannot be answered
        except Exception as error:  # noqa: BLE001 - the root of the request
            logger.error("a status request failed: %s", describe_unforeseen(error))
            return HTTPStatus.INTERNAL_SERVER_ERROR, _error("the node failed")

    def _authorise(self, head: Head) -> None:
        """Refuse a request unless it comes from a program of this machine that can read the state directory.

        Raises:
            RequestRefusedError: 403, the Host or an Origin names something else.
            _StatusError: 401, the token is missing or wrong.
        """
        check_access(head.values("host"), head.values("origin"), self._port)
        if not has_token(head.values("authorization"), self._token):
            raise _StatusError(HTTPStatus.UNAUTHORIZED, "wrong token")

    def _dispatch(self, head: Head) -> dict[str, object]:
        match head.method, head.target:
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
                raise _StatusError(HTTPStatus.NOT_FOUND, "there is no such endpoint")
        return self._status()

    def _status(self) -> dict[str, object]:
        state, sessions, worker = self._agent.state, self._agent.sessions, self._agent.worker
        status = worker.status
        return {
            "state": condition(state).value,
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


def _check_head(head: Head) -> None:
    """Refuse a request's head that no proper client of this endpoint would send.

    Raises:
        _StatusError: there are too many headers, a header comes twice, the method is neither GET nor POST, or the
            target is no path.
        RequestRefusedError: the head announces a chunked body.
    """
    names = [name for name, _ in head.headers]
    if len(names) > HEADERS_MAX:
        raise _StatusError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many headers")
    if len(set(names)) < len(names):
        raise _StatusError(HTTPStatus.BAD_REQUEST, "duplicate header")
    if head.method not in METHODS or not head.target.startswith("/"):
        raise _StatusError(HTTPStatus.BAD_REQUEST, "this endpoint takes GET and POST of a path only")
    if "transfer-encoding" in names:
        raise RequestRefusedError(Reason.BODY_TOO_LARGE, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def _error(message: str) -> dict[str, object]:
    return {"error": message}


async def _answer(connection: HttpConnection, status: HTTPStatus, body: dict[str, object]) -> None:
    headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    await connection.answer(status, headers, json.dumps(body).encode())
