"""Response objects: OpenAI's fields, `null` where OpenAI sends it, nothing where it does not."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from meshnet.errors import LedgerError, MeshnetError, RouteError
from meshnet.openai.errors import RequestError, describe_error
from meshnet.openai.events import (
    Alternative,
    Finished,
    FinishReason,
    GeneratedToken,
    PlacedToken,
    TextDelta,
    Usage,
)
from meshnet.openai.objects import ResponseObject
from meshnet.openai.parsing import parse_chat_request, parse_completion_request
from meshnet.openai.response_writer import Heading, ResponseWriter
from meshnet.openai.server_sent_events import data_event, error_event, telemetry_comment
from meshnet.openai.telemetry import Phase, Telemetry

HEADING = Heading(id="chatcmpl-1", created=1_700_000_000, model="m")
TELEMETRY = Telemetry(id="chatcmpl-1", phase=Phase.DONE, elapsed_ms=5)
FINISHED = Finished(FinishReason.STOP, Usage(prompt_tokens=3, completion_tokens=2), TELEMETRY)
TOKEN = PlacedToken(GeneratedToken(7, b"\xe6\xbc", -0.25, (Alternative(8, b"a", -math.inf),)), 4)
DELTA = TextDelta("hi", (TOKEN,))


def chat_writer(**changes: Any) -> ResponseWriter:
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}], **changes}
    return ResponseWriter(HEADING, parse_chat_request(json.dumps(body).encode()))


def text_writer(**changes: Any) -> ResponseWriter:
    body = {"model": "m", "prompt": "q", **changes}
    return ResponseWriter(HEADING, parse_completion_request(json.dumps(body).encode()))


def as_dict(response: ResponseObject) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(response.to_json())
    return decoded


def test_a_chat_stream_opens_with_the_role_and_closes_with_the_reason() -> None:
    writer = chat_writer(stream=True)
    (opening,), delta, (closing,) = writer.opening(), writer.delta(TextDelta("hi")), writer.closing(FINISHED)
    assert as_dict(opening)["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert as_dict(delta) == {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m",
        "choices": [{"index": 0, "delta": {"content": "hi"}, "logprobs": None, "finish_reason": None}],
    }  # fmt: skip
    assert as_dict(closing)["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]


def test_usage_is_one_more_chunk_and_null_before() -> None:
    writer = chat_writer(stream=True, stream_options={"include_usage": True})
    closing, usage = writer.closing(FINISHED)
    assert as_dict(writer.delta(DELTA))["usage"] is None
    assert as_dict(closing)["usage"] is None
    assert as_dict(usage)["choices"] == []
    assert as_dict(usage)["usage"]["total_tokens"] == 5


def test_a_whole_chat_answer() -> None:
    whole = as_dict(chat_writer().whole([TextDelta("a"), TextDelta("b")], FINISHED))
    assert whole["object"] == "chat.completion"
    assert whole["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "ab", "refusal": None}, "logprobs": None,
         "finish_reason": "stop"}
    ]  # fmt: skip
    assert whole["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0
    assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert whole["telemetry"]["phase"] == "done"


def test_chat_logprobs_keep_exact_bytes() -> None:
    (entry,) = as_dict(chat_writer(logprobs=True, top_logprobs=1).whole([DELTA], FINISHED))["choices"][0]["logprobs"][
        "content"
    ]
    assert entry == {
        "token": "\ufffd", "logprob": -0.25, "bytes": [0xE6, 0xBC],
        "top_logprobs": [{"token": "a", "logprob": -9999.0, "bytes": [97]}],
    }  # fmt: skip


def test_text_logprobs_are_parallel_lists() -> None:
    choice = as_dict(text_writer(logprobs=1).whole([DELTA], FINISHED))["choices"][0]
    assert choice["text"] == "hi"
    assert choice["logprobs"] == {
        "tokens": ["bytes:\\xe6\\xbc"], "token_logprobs": [-0.25], "top_logprobs": [{"a": -9999.0}], "text_offset": [4],
    }  # fmt: skip


def test_a_text_stream_has_no_opening() -> None:
    writer = text_writer(stream=True)
    assert writer.opening() == []
    assert as_dict(writer.delta(TextDelta("x")))["choices"] == [
        {"index": 0, "text": "x", "logprobs": None, "finish_reason": None}
    ]


def test_events_are_one_line_each() -> None:
    delta = data_event(chat_writer(stream=True).delta(TextDelta("a\n\nb\r")))
    for event in (delta, telemetry_comment(TELEMETRY), error_event(describe_error(RequestError("c", "m")).body)):
        assert event.endswith(b"\n\n")
        assert b"\n" not in event[:-2]
        assert b"\r" not in event
    assert telemetry_comment(TELEMETRY).startswith(b": meshnet {")


class StageError(RouteError):
    stage = 1


@pytest.mark.parametrize(
    ("error", "status", "kind", "stage"),
    [
        (RouteError("no_route", "t", "m"), 503, "server_error", None),
        (StageError("stage_lost", "t", "m"), 503, "server_error", 1),
        (StageError("step_timeout", "t", "m"), 504, "server_error", 1),
        (RouteError("planning_timeout", "t", "m"), 504, "server_error", None),
        (LedgerError("insufficient_credit", "t", "m"), 402, "insufficient_quota", None),
        (MeshnetError("odd", "t", "m"), 500, "server_error", None),
        (RequestError("too_long", "m", status=413), 413, "invalid_request_error", None),
    ],
)
def test_the_table_of_errors(error: MeshnetError, status: int, kind: str, stage: int | None) -> None:
    reply = describe_error(error)
    assert reply.status == status
    assert reply.body.model_dump() == {
        "error": {"message": "m", "type": kind, "param": None, "code": error.code, "stage": stage}
    }
