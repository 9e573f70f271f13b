"""A stream's bytes, event by event."""

from __future__ import annotations

import json

from meshnet.errors import RouteError
from meshnet.openai.events import Failed, Finished, FinishReason, GenerationEvent, TelemetryUpdate, TextDelta, Usage
from meshnet.openai.parsing import parse_chat_request
from meshnet.openai.response_writer import Heading, ResponseWriter
from meshnet.openai.stream_writer import StreamWriter
from meshnet.openai.telemetry import Phase, Telemetry

TELEMETRY = Telemetry(id="id", phase=Phase.DECODE, elapsed_ms=1)
SPEC = parse_chat_request(b'{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true}')
UPDATE, TEXT = TelemetryUpdate(TELEMETRY), TextDelta("a")
FINISHED = Finished(FinishReason.STOP, Usage(1, 1), TELEMETRY)
FAILED = Failed(RouteError("stage_lost", "Lost", "Stage 0 is gone."), Usage(1, 0), TELEMETRY)


def written(*events: GenerationEvent, include_telemetry: bool = False) -> list[str]:
    writer = StreamWriter(ResponseWriter(Heading("id", 0, "m"), SPEC), include_telemetry=include_telemetry)
    chunks = [chunk.decode() for event in events for chunk in writer.write(event)]
    assert all(chunk.endswith("\n\n") and "\n" not in chunk[:-2] for chunk in chunks)
    return [chunk.removesuffix("\n\n") for chunk in chunks]


def test_a_whole_stream() -> None:
    telemetry, role, text, more, closing, done = written(UPDATE, TEXT, TEXT, FINISHED)
    assert telemetry.startswith(": meshnet {")
    deltas = [json.loads(chunk.removeprefix("data: "))["choices"][0]["delta"] for chunk in (role, text, more, closing)]
    assert [delta.get("content") for delta in deltas] == ["", "a", "a", None]
    assert done == "data: [DONE]"


def test_an_answer_without_text_still_opens() -> None:
    assert len(written(FINISHED)) == 3


def test_telemetry_as_chunks_where_it_was_asked_for() -> None:
    (chunk,) = written(UPDATE, include_telemetry=True)
    assert json.loads(chunk.removeprefix("data: "))["telemetry"]["phase"] == "decode"


def test_a_failure_is_one_error_event_and_nothing_after_it() -> None:
    events = written(TEXT, FAILED)
    assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "stage_lost"
    assert "data: [DONE]" not in events
