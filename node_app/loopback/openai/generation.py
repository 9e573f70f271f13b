"""One generation of the local API: turns the events of its session into text and telemetry for one reader.

Invariants: a generation yields any number of text deltas and telemetry updates, then exactly one `Finished` or
`Failed`; the session is closed on the worker before that. A token is acknowledged when the reader asks for the next
event, so a slow client delays only its own session. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.errors import MeshnetError
from meshnet.failure_codes import FailureCode
from meshnet.generation.answer_text import AnswerText
from meshnet.generation.progress import PrefillAdvanced, TokenReceived
from meshnet.generation.telemetry_pulse import TelemetryPulse
from meshnet.openai.events import Failed, Finished, TelemetryUpdate, Usage
from meshnet.openai.telemetry import Phase

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from meshnet.generation.fitting import FittedRequest
    from meshnet.generation.telemetry_board import TelemetryBoard
    from meshnet.openai.events import FinishReason, GenerationEvent, TextDelta
    from meshnet.openai.specification import GenerationSpec
    from meshnet.vocab import Vocabulary
    from node_app.sessions.local.session import LocalSession


@dataclass(frozen=True, slots=True)
class OwnStage:
    """This node as the only stage of a route, in the form in which telemetry shows stages."""

    node_name: str
    layer_begin: int
    layer_end: int
    carrier: str = "local"
    seam_bytes_per_token: int = 0
    seam_codec: str = ""
    recipe: str = ""


class LocalGeneration:
    """One generation on an open session. `board`: collects telemetry; the caller has set its prompt and stage."""

    def __init__(
        self,
        spec: GenerationSpec,
        fitted: FittedRequest,
        vocabulary: Vocabulary,
        session: LocalSession,
        board: TelemetryBoard,
    ) -> None:
        self._answer = AnswerText(vocabulary, spec.stop, with_tokens=fitted.sampling.logprobs)
        self._prompt_tokens = len(fitted.prompt_tokens)
        self._session = session
        self._board = board
        self._clock_s = asyncio.get_running_loop().time

    @property
    def usage(self) -> Usage:
        """The number of tokens in the prompt, and in the completion so far."""
        return Usage(self._prompt_tokens, self._answer.tokens)

    async def events(self) -> AsyncGenerator[GenerationEvent, None]:
        """Run the generation and yield its events in order; a failure of the session is an event too."""
        try:
            async for event in self._running():
                yield event
        except MeshnetError as error:
            rest = self._answer.rest()
            if rest:
                yield rest
            await self._session.close(error.code)
            failed = self._failed(_explained(error))
            yield TelemetryUpdate(failed.telemetry)
            yield failed

    async def _running(self) -> AsyncGenerator[GenerationEvent, None]:
        pulse = TelemetryPulse()
        finish: FinishReason | None = None
        while finish is None:
            wait_s = pulse.wait_s(self._board, self._clock_s())
            if wait_s <= 0:
                yield self._update(pulse)
                continue
            match await self._session.next_event(wait_s):
                case TokenReceived() as token:
                    delta, finish = self._take(token)
                    if delta:
                        yield delta
                    self._session.acknowledge(token.index)
                case PrefillAdvanced(done=done):
                    self._board.advance_prefill(done, self._clock_s())
        rest = self._answer.rest()
        if rest:
            yield rest
        await self._session.close("finished")
        self._board.enter(Phase.DONE, self._clock_s())
        yield self._update(pulse)
        yield Finished(finish, self.usage, self._board.snapshot(self._clock_s()))

    def _take(self, token: TokenReceived) -> tuple[TextDelta, FinishReason | None]:
        delta, finish = self._answer.take(token)
        self._board.count_token(token.residence, self._clock_s())
        return delta, finish

    def _update(self, pulse: TelemetryPulse) -> TelemetryUpdate:
        now_s = self._clock_s()
        pulse.show(self._board, now_s)
        return TelemetryUpdate(self._board.snapshot(now_s))

    def _failed(self, error: MeshnetError) -> Failed:
        self._board.fail(error, self._clock_s())
        return Failed(error, self.usage, self._board.snapshot(self._clock_s()))


def _explained(error: MeshnetError) -> MeshnetError:
    """Return the error to show the client: if the client read too slowly, the worker wrongly reports a lost Gateway."""
    if error.code != FailureCode.GATEWAY_LOST:
        return error
    return MeshnetError("client_too_slow", "Cancelled", "The client did not take the answer fast enough.")
