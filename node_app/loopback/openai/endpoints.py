"""The endpoints of the local API: completions, chat completions and the list of models.

Invariants: Host and Origin are checked before anything else (`loopback.access`). A failure before the answer has begun
is answered with an OpenAI error object. If a client leaves, its request ends at once. No API key is needed, since only
programs of this machine are served.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from meshnet.errors import MeshnetError, describe_unforeseen
from meshnet.openai import http_refusals
from meshnet.openai.errors import SERVER_ERROR, RequestError, describe_error
from meshnet.openai.objects import ModelList
from meshnet.openai.parsing import parse_chat_request, parse_completion_request
from node_app.loopback.access import check_access
from node_app.loopback.connection import ClientGoneError
from node_app.loopback.openai.refusals import explain_refusal
from node_app.loopback.refusals import RequestRefusedError
from node_app.system.blocking import run_blocking
from node_app.system.racing import race

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.openai.objects import ResponsePart
    from meshnet.openai.specification import GenerationSpec
    from node_app.loopback.connection import Head, Headers, HttpConnection
    from node_app.loopback.limits import ConnectionLimits
    from node_app.loopback.openai.answering import Answering
    from node_app.loopback.openai.served_model import ServedModel

logger = logging.getLogger(__name__)

MODELS: Final = "/v1/models"
READING: Final = ("GET", "HEAD")
WRITING: Final = ("POST",)

_PARSERS: Final[dict[str, Callable[[bytes], GenerationSpec]]] = {
    "/v1/chat/completions": parse_chat_request,
    "/v1/completions": parse_completion_request,
}


class _WrongMethodError(RequestError):
    """The endpoint does not take the request's method. The answer has status 405 and lists the `allowed` methods."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        refusal = http_refusals.wrong_method(allowed)
        super().__init__(refusal.code, refusal.message, status=refusal.status)
        self.allowed = allowed


def _allow(head: Head, methods: tuple[str, ...]) -> None:
    if head.method not in methods:
        raise _WrongMethodError(methods)


class Endpoints:
    """Reads the one request of a connection and answers it. `port` and `limits` are those of the API's server."""

    def __init__(self, port: int, model: ServedModel, answering: Answering, limits: ConnectionLimits) -> None:
        self._port = port
        self._limits = limits
        self._model = model
        self._answering = answering

    async def serve(self, connection: HttpConnection) -> None:
        """Read a connection's request and answer it.

        Raises:
            ClientGoneError: the client left or does not read.
        """
        try:
            head = await connection.read_head()
            check_access(head.values("host"), head.values("origin"), self._port)
            await self._dispatch(connection, head)
        except RequestRefusedError as refused:
            await _refuse(connection, explain_refusal(refused, self._port, self._limits))
        except MeshnetError as error:
            await _refuse(connection, error)
        except ClientGoneError:
            raise  # not a failure of the node, and the client cannot be answered
        except Exception as error:  # noqa: BLE001 - the root of the request
            logger.error("a local request failed: %s", describe_unforeseen(error))
            await _refuse(connection, MeshnetError("internal_error", "Internal error", "The node failed."))

    async def refuse(self, connection: HttpConnection) -> None:
        """Answer that there are too many connections at once; raises ClientGoneError if the client left."""
        message = "This machine already answers as many requests as it can; try again later."
        await _refuse(connection, RequestError("node_busy", message, status=503, error_type=SERVER_ERROR))

    async def _dispatch(self, connection: HttpConnection, head: Head) -> None:
        path = urlsplit(head.target).path
        if path in _PARSERS:
            _allow(head, WRITING)
            spec = await _read_spec(connection, head, _PARSERS[path])
            # If the client leaves, the answer is cancelled.
            await race(self._answering.answer(connection, spec), connection.gone())
        elif path == MODELS:
            _allow(head, READING)
            await _answer(connection, ModelList(object="list", data=[self._model.to_object()]))
        elif path.startswith(f"{MODELS}/") and path != f"{MODELS}/":
            _allow(head, READING)
            if unquote(path.removeprefix(f"{MODELS}/")) != self._model.name:
                raise http_refusals.unknown_model()
            await _answer(connection, self._model.to_object())
        else:
            raise http_refusals.unknown_url(head.method, path)


async def _read_spec(
    connection: HttpConnection, head: Head, parse: Callable[[bytes], GenerationSpec]
) -> GenerationSpec:
    content_type, _, _ = head.value("content-type").partition(";")
    if content_type.strip().lower() != http_refusals.JSON_TYPE:
        raise http_refusals.not_json()
    body = await connection.read_body(head)
    if len(body) <= http_refusals.PARSE_INLINE_BYTES:
        return parse(body)
    return await run_blocking(lambda: parse(body), "parse")


async def _answer(connection: HttpConnection, answer: ResponsePart) -> None:
    await connection.answer(200, [("Content-Type", http_refusals.JSON_TYPE)], answer.to_json().encode())


async def _refuse(connection: HttpConnection, error: MeshnetError) -> None:
    """Answer with an error object; if an answer has already begun, cut the connection, so that the client notices."""
    if connection.is_answered:
        connection.abort()
        return
    reply = describe_error(error)
    headers: Headers = [("Content-Type", http_refusals.JSON_TYPE)]
    if isinstance(error, _WrongMethodError):
        headers.append(("Allow", ", ".join(error.allowed)))
    await connection.answer(reply.status, headers, reply.body.model_dump_json().encode())
