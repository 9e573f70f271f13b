"""The status is read strictly: what an agent gives is taken, anything else is named and refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.shard_facts import NodeState
from node_app.status.agent_status import (
    LOG_LINES_MAX,
    TEXT_LENGTH_MAX,
    StatusError,
    parse_log,
    parse_status,
)
from tests.unit.node_app.statuses import FIELDS, a_status, status_bytes


def test_what_an_agent_gives_is_read() -> None:
    status = a_status()
    assert status.condition is NodeState.SERVING
    assert (status.layer_begin, status.layer_end, status.n_layers) == (15, 30, 30)
    assert (status.name, status.model, status.sessions, status.tokens_per_s) == ("attic", "model.gguf", 2, 41.25)
    assert status.credits_micros is None
    assert status.notice == ""


def test_fields_of_newer_agents_are_ignored_and_optional_ones_are_read() -> None:
    status = a_status(something_new=[1], notice="no route takes it", credits_micros=1_500_000, tokens_per_s=3)
    assert (status.notice, status.credits_micros, status.tokens_per_s) == ("no route takes it", 1_500_000, 3.0)
    assert a_status(notice=None).notice == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "dancing"},
        {"state": None},
        {"reason": 3},
        {"name": ["attic"]},
        {"is_control_connected": 1},
        {"is_data_connected": "true"},
        {"layer_begin": -1},
        {"layer_begin": 30},
        {"layer_end": 31},
        {"layer_end": 15.0},
        {"n_layers": 10**9},
        {"n_layers": True},
        {"sessions": -1},
        {"sessions": None},
        {"sessions": 2**60},
        {"tokens_per_s": "fast"},
        {"tokens_per_s": -0.5},
        {"tokens_per_s": True},
        {"resident_bytes": 1e9},
        {"credits_micros": 0.5},
        {"credits_micros": -1},
        {"notice": 7},
    ],
)
def test_a_field_of_another_type_or_range_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(StatusError, match=r"layers|" + next(iter(wrong))):
        parse_status(status_bytes(**wrong))


@pytest.mark.parametrize("name", ["state", "model", "is_data_connected", "layer_end", "sessions", "tokens_per_s"])
def test_a_missing_field_is_refused(name: str) -> None:
    fields = {key: value for key, value in FIELDS.items() if key != name}
    with pytest.raises(StatusError, match=name):
        parse_status(json.dumps(fields).encode())


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_rate_that_is_no_number_is_refused(word: str) -> None:
    with pytest.raises(StatusError, match="tokens_per_s"):
        parse_status(status_bytes().replace(b"41.25", word.encode()))


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"3", b"<html>", b"\xff", b"[" * 100_000, b'{"a":'])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(StatusError):
        parse_status(data)


def test_text_is_bounded_and_on_one_line() -> None:
    status = a_status(reason="a\nb\x00c" + "x" * 9000)
    assert len(status.reason) == TEXT_LENGTH_MAX
    assert status.reason.startswith("a b cx")


@given(st.binary(max_size=400))
def test_no_bytes_give_another_error(data: bytes) -> None:
    with pytest.raises(StatusError):
        parse_status(data)


@given(
    st.dictionaries(st.sampled_from(sorted(FIELDS)), st.none() | st.booleans() | st.integers() | st.text(max_size=9))
)
def test_no_mixture_of_fields_gives_another_error(changes: dict[str, object]) -> None:
    try:
        status = parse_status(status_bytes(**changes))
    except StatusError:
        return
    assert status.layer_begin < status.layer_end <= status.n_layers


def test_a_log_is_a_bounded_list_of_text() -> None:
    assert parse_log(b'{"lines": ["one", "two"]}') == ("one", "two")
    many = json.dumps({"lines": [str(number) for number in range(LOG_LINES_MAX + 7)]}).encode()
    assert len(parse_log(many)) == LOG_LINES_MAX
    assert parse_log(many)[-1] == str(LOG_LINES_MAX + 6)


@pytest.mark.parametrize("data", [b"{}", b'{"lines": "one"}', b'{"lines": [1]}', b"[]", b"no"])
def test_what_is_no_log_is_refused(data: bytes) -> None:
    with pytest.raises(StatusError):
        parse_log(data)
