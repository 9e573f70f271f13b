"""Request bodies: what is understood, and what each wrong body is told."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshnet.openai.errors import RequestError
from meshnet.openai.parsing import parse_chat_request, parse_completion_request
from meshnet.openai.specification import ChatMessage, ChatPrompt, Face, Role, TextPrompt, TokenPrompt

MINIMAL = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT = {"model": "m", "prompt": "hi"}

# What official clients send for parameters that were left alone.
NULLS = dict.fromkeys(
    [
        "tools",
        "tool_choice",
        "response_format",
        "functions",
        "function_call",
        "audio",
        "n",
        "stop",
        "seed",
        "logit_bias",
        "top_p",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "stream_options",
        "logprobs",
        "top_logprobs",
    ]
)

WRONG_CHAT: list[tuple[dict[str, Any], str, str | None]] = [
    ({"model": 5}, "invalid_type", "model"),
    ({"model": ""}, "invalid_value", "model"),
    ({"messages": []}, "invalid_value", "messages"),
    ({"messages": "hi"}, "invalid_type", "messages"),
    ({"messages": [{"role": "user"}]}, "missing_required_parameter", "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "invalid_type", "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "invalid_type", "messages[0].content"),
    ({"messages": [{"role": "user", "content": []}]}, "invalid_value", "messages[0].content"),
    ({"messages": [{"role": "pirate", "content": "x"}]}, "invalid_value", "messages[0].role"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "unsupported_value", "messages[0].role"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "unsupported_content",
        "messages[0].content[0].type",
    ),
    ({"temperature": "hot"}, "invalid_type", "temperature"),
    ({"temperature": True}, "invalid_type", "temperature"),
    ({"temperature": 2.1}, "invalid_value", "temperature"),
    ({"temperature": -0.1}, "invalid_value", "temperature"),
    ({"top_p": 1.5}, "invalid_value", "top_p"),
    ({"top_k": -2}, "invalid_value", "top_k"),
    ({"top_k": 1.5}, "invalid_type", "top_k"),
    ({"min_p": 2}, "invalid_value", "min_p"),
    ({"seed": 2**64}, "invalid_value", "seed"),
    ({"seed": 1.0}, "invalid_type", "seed"),
    ({"presence_penalty": 3}, "invalid_value", "presence_penalty"),
    ({"frequency_penalty": -3}, "invalid_value", "frequency_penalty"),
    ({"max_tokens": 0}, "invalid_value", "max_tokens"),
    ({"max_tokens": True}, "invalid_type", "max_tokens"),
    ({"max_completion_tokens": -1}, "invalid_value", "max_completion_tokens"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "invalid_value", "max_completion_tokens"),
    ({"n": 2}, "unsupported_value", "n"),
    ({"n": True}, "unsupported_value", "n"),
    ({"stop": ""}, "invalid_value", "stop"),
    ({"stop": ["a", 1]}, "invalid_type", "stop[1]"),
    ({"stop": ["a"] * 17}, "invalid_value", "stop"),
    ({"stop": "a" * 257}, "invalid_value", "stop"),
    ({"logit_bias": {"x": 1}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"5": 101}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"5": "1"}}, "invalid_type", "logit_bias"),
    ({"logit_bias": {str(2**31): 1}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"7": 1, "007": -1}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"9" * 5000: 1}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {str(key): 1 for key in range(1025)}}, "invalid_value", "logit_bias"),
    ({"top_logprobs": 3}, "invalid_value", "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "invalid_value", "top_logprobs"),
    ({"logprobs": 1}, "invalid_type", "logprobs"),
    ({"stream": "yes"}, "invalid_type", "stream"),
    ({"stream_options": {"include_usage": True}}, "invalid_value", "stream_options"),
    ({"stream": True, "stream_options": {"nonsense": 1}}, "unknown_parameter", "stream_options.nonsense"),
    ({"tools": [{"type": "function"}]}, "unsupported_parameter", "tools"),
    ({"tool_choice": "required"}, "unsupported_parameter", "tool_choice"),
    ({"response_format": {"type": "json_object"}}, "unsupported_parameter", "response_format"),
    ({"modalities": ["audio"]}, "unsupported_value", "modalities"),
    ({"nonsense": 1}, "unknown_parameter", "nonsense"),
]

WRONG_TEXT: list[tuple[dict[str, Any], str, str]] = [
    ({"prompt": None}, "invalid_type", "prompt"),
    ({"prompt": []}, "invalid_type", "prompt"),
    ({"prompt": [[]]}, "invalid_type", "prompt"),
    ({"prompt": ["a", "b"]}, "unsupported_value", "prompt"),
    ({"prompt": [1, True]}, "unsupported_value", "prompt"),
    ({"prompt": [-1]}, "invalid_type", "prompt"),
    ({"prompt": [2**31]}, "invalid_type", "prompt"),
    ({"best_of": 2}, "unsupported_value", "best_of"),
    ({"echo": True}, "unsupported_value", "echo"),
    ({"suffix": "x"}, "unsupported_parameter", "suffix"),
    ({"logprobs": True}, "invalid_type", "logprobs"),
]


def chat(changes: dict[str, Any] | None = None) -> bytes:
    return json.dumps(MINIMAL | (changes or {})).encode()


def text(changes: dict[str, Any] | None = None) -> bytes:
    return json.dumps(TEXT | (changes or {})).encode()


@pytest.mark.parametrize(("changes", "code", "param"), WRONG_CHAT)
def test_a_wrong_chat_request_names_the_parameter(changes: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_chat_request(chat(changes))
    assert (caught.value.code, caught.value.param, caught.value.status) == (code, param, 400)


@pytest.mark.parametrize(("changes", "code", "param"), WRONG_TEXT)
def test_a_wrong_text_request_names_the_parameter(changes: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_completion_request(text(changes))
    assert (caught.value.code, caught.value.param) == (code, param)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"model": "\\ud800"}', b"[" * 5000, b"{}}"])
def test_what_is_not_json_is_told_so(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse_chat_request(body)
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"5"])
def test_json_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse_chat_request(body)
    assert (caught.value.code, caught.value.param) == ("invalid_type", None)


def test_infinite_numbers_are_refused() -> None:
    for number in ("NaN", "Infinity", "1e999"):
        body = chat().replace(b'"model"', f'"temperature": {number}, "model"'.encode(), 1)
        with pytest.raises(RequestError) as caught:
            parse_chat_request(body)
        assert caught.value.param == "temperature"


def test_an_error_never_repeats_what_was_sent() -> None:
    secret = "the user's own words"
    for changes in (
        {"temperature": secret},
        {"stop": [secret * 20]},
        {"messages": [{"role": secret, "content": secret}]},
    ):
        with pytest.raises(RequestError) as caught:
            parse_chat_request(chat(changes))
        assert secret not in str(caught.value)


def test_the_smallest_request_takes_the_defaults() -> None:
    spec = parse_chat_request(chat(NULLS))
    assert spec.prompt == ChatPrompt((ChatMessage(Role.USER, "hi"),))
    assert (spec.face, spec.max_tokens, spec.stop, spec.delivery.stream) == (Face.CHAT, None, (), False)
    assert (spec.sampling.temperature, spec.sampling.top_p, spec.sampling.top_k) == (1.0, 1.0, 0)
    assert spec.sampling.seed is None


def test_everything_that_can_be_asked_for_arrives() -> None:
    spec = parse_chat_request(
        chat(
            {
                "stream": True,
                "stream_options": {"include_usage": True, "include_telemetry": True},
                "stop": ["a", "b"],
                "max_completion_tokens": 7,
                "temperature": 0,
                "top_p": 0.5,
                "top_k": 40,
                "min_p": 0.1,
                "seed": -1,
                "presence_penalty": 1,
                "frequency_penalty": -1,
                "logit_bias": {"9": 1, "5": -100},
                "logprobs": True,
                "top_logprobs": 3,
                "user": "u",
                "store": False,
                "tools": [],
                "response_format": {"type": "text"},
            }
        )
    )
    assert (spec.max_tokens, spec.stop) == (7, ("a", "b"))
    assert (spec.delivery.stream, spec.delivery.include_usage, spec.delivery.include_telemetry) == (True, True, True)
    assert (spec.sampling.seed, spec.sampling.logit_bias) == (2**64 - 1, ((5, -100.0), (9, 1.0)))
    assert (spec.sampling.logprobs, spec.sampling.top_logprobs) == (True, 3)


def test_the_empty_nucleus_becomes_the_likeliest_token() -> None:
    sampling = parse_chat_request(chat({"top_p": 0})).sampling
    assert (sampling.top_p, sampling.top_k) == (1.0, 1)


def test_parts_are_joined_and_developer_is_system() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    spec = parse_chat_request(chat({"messages": [{"role": "developer", "content": parts}]}))
    assert spec.prompt == ChatPrompt((ChatMessage(Role.SYSTEM, "one\ntwo"),))


@pytest.mark.parametrize(
    ("prompt", "parsed"),
    [
        ("hi", TextPrompt("hi")),
        (["hi"], TextPrompt("hi")),
        ([1, 2], TokenPrompt((1, 2))),
        ([[1, 2]], TokenPrompt((1, 2))),
        ("", TextPrompt("")),
    ],
)
def test_the_four_forms_of_a_prompt(prompt: object, parsed: object) -> None:
    spec = parse_completion_request(text({"prompt": prompt}))
    assert (spec.prompt, spec.max_tokens, spec.face) == (parsed, None, Face.COMPLETION)


def test_zero_logprobs_still_asks_for_the_drawn_token() -> None:
    sampling = parse_completion_request(text({"logprobs": 0})).sampling
    assert (sampling.logprobs, sampling.top_logprobs) == (True, 0)


def test_prompts_stay_out_of_reprs() -> None:
    assert "hi" not in repr(parse_chat_request(chat())) + repr(parse_completion_request(text()))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(sorted({*NULLS, *MINIMAL, "stream", "user", "top_k", "min_p", "nonsense", "prompt"}))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(changes=st.dictionaries(FIELDS, JSON_VALUES, max_size=4))
def test_any_json_is_understood_or_refused_and_nothing_else(changes: dict[str, Any]) -> None:
    for parse, base in ((parse_chat_request, MINIMAL), (parse_completion_request, TEXT)):
        with contextlib.suppress(RequestError):
            parse(json.dumps(base | changes).encode())


@given(body=st.binary(max_size=64))
def test_any_bytes_are_refused_cleanly(body: bytes) -> None:
    for parse in (parse_chat_request, parse_completion_request):
        with pytest.raises(RequestError):
            parse(body)
