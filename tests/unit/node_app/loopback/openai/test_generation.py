"""A local generation's events: order, acknowledgements, and every ending with the session closed before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.errors import MeshnetError, RouteError
from meshnet.generation.fitting import FittedRequest
from meshnet.generation.progress import PrefillAdvanced, TokenReceived
from meshnet.generation.telemetry_board import TelemetryBoard
from meshnet.openai.events import Failed, Finished, FinishReason, TelemetryUpdate, TextDelta
from meshnet.openai.parsing import parse_chat_request
from meshnet.openai.telemetry import Phase
from meshnet.vocab import ByteVocabulary
from node_app.loopback.openai.generation import LocalGeneration
from node_app.sessions.local.machine import LocalRouteError
from tests.unit.node_app.loopback.openai.stand_ins import Recited

if TYPE_CHECKING:
    from meshnet.generation.progress import RouteEvent
    from meshnet.openai.events import GenerationEvent

SPEC = parse_chat_request(b'{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stop": ["xyz"]}')


def tokens(text: bytes, finish: FinishReason | None = FinishReason.LENGTH) -> list[RouteEvent]:
    last = len(text) - 1
    return [TokenReceived(index, byte, finish=finish if index == last else None) for index, byte in enumerate(text)]


async def told(recited: Recited) -> list[GenerationEvent]:
    """Everything but telemetry; the last update must agree with the end."""
    fitted = FittedRequest((1, 2, 3), 40, SPEC.sampling)
    board = TelemetryBoard("id", 0.0)
    board.set_prompt(3)
    events = [
        event async for event in LocalGeneration(SPEC, fitted, ByteVocabulary(64), recited.session, board).events()
    ]
    *_, update, last = events
    assert isinstance(update, TelemetryUpdate)
    assert isinstance(last, Finished | Failed)
    assert update.telemetry.phase is last.telemetry.phase
    return [event for event in events if not isinstance(event, TelemetryUpdate)]


async def test_a_whole_answer() -> None:
    recited = Recited([PrefillAdvanced(3, 3), *tokens(b"hello")])
    *deltas, last = await told(recited)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "hello"
    assert isinstance(last, Finished)
    assert (last.reason, last.usage.prompt_tokens, last.usage.completion_tokens) == (FinishReason.LENGTH, 3, 5)
    assert (last.telemetry.phase, last.telemetry.prefill_done) == (Phase.DONE, 3)
    assert recited.acknowledged == [0, 1, 2, 3, 4]
    assert recited.closed == ["finished"]


async def test_a_stop_string_ends_it_and_nothing_behind_it_is_taken() -> None:
    recited = Recited(tokens(b"abxyzde"))
    *deltas, last = await told(recited)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "ab"
    assert isinstance(last, Finished)
    assert (last.reason, last.usage.completion_tokens, recited.closed) == (FinishReason.STOP, 5, ["finished"])


@pytest.mark.parametrize(
    ("failure", "code", "stage"),
    [
        (LocalRouteError("engine_failed", "the engine failed"), "engine_failed", 0),
        (LocalRouteError("worker_lost", "the worker ended"), "stage_lost", 0),
        (LocalRouteError("gateway_lost", "nobody acknowledges"), "client_too_slow", None),
        (RouteError("no_route", "No route", "none"), "no_route", None),
    ],
)
async def test_a_failure_gives_what_was_held_back_and_is_named(
    failure: MeshnetError, code: str, stage: int | None
) -> None:
    recited = Recited(tokens(b"abx", finish=None), failure)
    *deltas, last = await told(recited)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "abx"
    assert isinstance(last, Failed)
    assert last.telemetry.failure is not None
    assert (last.error.code, last.telemetry.failure.code, last.telemetry.failure.stage) == (code, code, stage)
    assert recited.closed == [failure.code]
