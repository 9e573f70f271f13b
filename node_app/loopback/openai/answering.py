"""Answers a generation request, streamed or whole.

Invariants: an answer begins only after the worker has opened the session, so every earlier failure has an HTTP status
of its own; if a stream fails later, it ends with an error event. The session is closed on the worker exactly once, even
if the client leaves. Prompts and completions are never logged.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final

from meshnet.generation.deadlines import TOKENISE_TIMEOUT_S
from meshnet.generation.fitting import fit_request
from meshnet.generation.telemetry_board import TelemetryBoard
from meshnet.openai.errors import RATE_LIMITED, SERVER_ERROR, RequestError
from meshnet.openai.events import Failed, Finished, TextDelta
from meshnet.openai.http_refusals import JSON_TYPE, unknown_model
from meshnet.openai.response_writer import ID_PREFIXES, Heading, ResponseWriter
from meshnet.openai.server_sent_events import CONTENT_TYPE
from meshnet.openai.stream_writer import StreamWriter
from meshnet.openai.telemetry import Phase
from node_app.loopback.openai.generation import LocalGeneration, OwnStage
from node_app.sessions.local.opening import FULL_CODES
from node_app.sessions.local.terms import LocalRequest
from node_app.worker.refusal import StageRefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from meshnet.generation.fitting import FittedRequest
    from meshnet.openai.events import GenerationEvent
    from meshnet.openai.specification import GenerationSpec
    from meshnet.vocab import Vocabulary
    from node_app.loopback.connection import HttpConnection
    from node_app.loopback.openai.served_model import ServedModel
    from node_app.sessions.local.opening import LocalSessions
    from node_app.sessions.local.session import LocalSession
    from node_app.sessions.local.terms import LocalShard

logger = logging.getLogger(__name__)

STREAM_HEADERS: Final = [("Content-Type", CONTENT_TYPE), ("Cache-Control", "no-cache")]


class Answering:
    """Runs generations on the node's worker and sends them to clients."""

    def __init__(
        self,
        model: ServedModel,
        sessions: LocalSessions,
        node_name: str,
        tokenise_timeout_s: float = TOKENISE_TIMEOUT_S,
    ) -> None:
        """Answer with the model that the node serves.

        Args:
            model: the model that the worker has loaded.
            sessions: opens sessions on the node's worker.
            node_name: the name of this node in telemetry.
            tokenise_timeout_s: time to wait for other prompts, to render and tokenise a prompt and, in the first
                request, to load the vocabulary.
        """
        self._model = model
        self._sessions = sessions
        self._node_name = node_name
        self._tokenise_timeout_s = tokenise_timeout_s

    async def answer(self, connection: HttpConnection, spec: GenerationSpec) -> None:
        """Run the generation that a request asks for, and send its answer to the client.

        Raises:
            MeshnetError: the request was refused, or the generation failed before anything was sent.
            ClientGoneError: the client left or does not read.
        """
        generation_id = ID_PREFIXES[spec.face] + secrets.token_hex(12)
        writer = ResponseWriter(Heading(generation_id, int(time.time()), spec.model), spec)
        request_id = ("X-Request-Id", generation_id)
        async with self._opened(generation_id, spec) as generation, aclosing(generation.events()) as events:
            try:
                if spec.delivery.stream:
                    await connection.begin(200, [*STREAM_HEADERS, request_id])
                    await _stream(
                        connection, events, StreamWriter(writer, include_telemetry=spec.delivery.include_telemetry)
                    )
                else:
                    body = await _whole(events, writer)
                    await connection.answer(200, [("Content-Type", JSON_TYPE), request_id], body)
            finally:
                usage = generation.usage
                logger.info("%s: %d + %d tokens", generation_id, usage.prompt_tokens, usage.completion_tokens)

    @asynccontextmanager
    async def _opened(self, generation_id: str, spec: GenerationSpec) -> AsyncIterator[LocalGeneration]:
        if spec.model != self._model.name:
            raise unknown_model()
        clock_s = asyncio.get_running_loop().time
        board = TelemetryBoard(generation_id, clock_s())
        shard = self._model.shard()
        vocabulary, fitted = await self._fit(spec, shard.contract.context_length)
        board.set_prompt(len(fitted.prompt_tokens))
        board.enter(Phase.ROUTING, clock_s())
        session = await self._open(_request(fitted, vocabulary), shard)
        try:
            stage = OwnStage(self._node_name, 0, shard.contract.n_layers, recipe=shard.contract.recipe)
            board.set_stages([stage], clock_s())
            board.enter(Phase.PREFILL, clock_s())
            yield LocalGeneration(spec, fitted, vocabulary, session, board)
        finally:
            await session.close("over")

    async def _open(self, request: LocalRequest, shard: LocalShard) -> LocalSession:
        try:
            return await self._sessions.open(request, shard)
        except StageRefusedError as error:
            if error.code not in FULL_CODES:
                raise
            raise RequestError(error.code, error.message, status=429, error_type=RATE_LIMITED) from error

    async def _fit(self, spec: GenerationSpec, context_length: int) -> tuple[Vocabulary, FittedRequest]:
        try:
            async with asyncio.timeout(self._tokenise_timeout_s):
                vocabulary = await self._model.vocabulary(context_length)
                prompt_tokens = await self._model.tokenise(vocabulary, spec.prompt)
        except TimeoutError:
            message = "The prompt could not be tokenised in time; this machine is busy."
            raise RequestError("node_busy", message, status=503, error_type=SERVER_ERROR) from None
        return vocabulary, fit_request(spec, vocabulary, prompt_tokens, secrets.randbits(64))


async def _stream(connection: HttpConnection, events: AsyncIterator[GenerationEvent], stream: StreamWriter) -> None:
    async for event in events:
        for chunk in stream.write(event):
            await connection.send(chunk)
    await connection.end()


async def _whole(events: AsyncIterator[GenerationEvent], writer: ResponseWriter) -> bytes:
    deltas: list[TextDelta] = []
    async for event in events:
        match event:
            case TextDelta():
                deltas.append(event)
            case Finished():
                return writer.whole(deltas, event).to_json().encode()
            case Failed(error=error):
                raise error
    raise AssertionError("a generation ended without its last event")


def _request(fitted: FittedRequest, vocabulary: Vocabulary) -> LocalRequest:
    return LocalRequest(
        prompt_tokens=fitted.prompt_tokens,
        max_tokens=fitted.max_tokens,
        sampling=fitted.sampling,
        end_tokens=vocabulary.end_tokens,
        vocabulary_size=vocabulary.size,
    )
