from __future__ import annotations

import json

import pytest

from meshnet.errors import TransferError
from node_app.site.enrolment import EnrolmentRefusedError, EnrolmentRequest, enrol, read_answer
from tests.unit.node_app.answering_site import a_site, answers_of_no_site, at_once


@pytest.mark.parametrize("status", [200, 201])
def test_a_node_id_is_taken(status: int) -> None:
    assert read_answer(status, b'{"node_id": "abc"}') == "abc"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_busy_site_is_asked_again(status: int) -> None:
    with pytest.raises(TransferError, match="site_busy"):
        read_answer(status, b'{"error": {"code": "x", "message": "y"}}')


def test_a_refusal_carries_the_sites_words() -> None:
    body = json.dumps({"error": {"code": "bad_token", "message": "the token is not known"}}).encode()
    with pytest.raises(EnrolmentRefusedError, match="bad_token") as caught:
        read_answer(401, body)
    assert "the token is not known" in caught.value.message


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b'{"node_id": 5}'),
        (200, b'{"node_id": ""}'),
        (200, b'{"node_id": "' + b"x" * 65 + b'"}'),
        (200, b"[]"),
        (404, b"not found"),
        (302, b""),
        (200, b"[" * 60_000),
        (401, b'{"error": "text"}'),
    ],
)
def test_what_is_no_answer_of_a_site_is_said_so(status: int, body: bytes) -> None:
    with pytest.raises(EnrolmentRefusedError, match="not_a_site"):
        read_answer(status, body)


@pytest.mark.parametrize("answer", answers_of_no_site().values(), ids=answers_of_no_site())
def test_whatever_is_answered_has_an_error_of_ours(answer: bytes) -> None:
    with a_site(at_once(answer)) as site, pytest.raises((TransferError, EnrolmentRefusedError)) as refused:
        enrol(EnrolmentRequest(site.url, "token", b"k" * 32, "name"))
    assert refused.value.message.isprintable()


def test_a_refusal_does_not_command_a_terminal() -> None:
    body = json.dumps({"error": {"code": "x\x1b[2J", "message": "two\nlines\x1b]0;title\x07"}}).encode()
    with pytest.raises(EnrolmentRefusedError) as refused:
        read_answer(403, body)
    assert (refused.value.code + refused.value.message).isprintable()


def test_no_site_is_a_reason_to_try_again() -> None:
    request = EnrolmentRequest("http://127.0.0.1:9", "token", b"k" * 32, "name")
    with pytest.raises(TransferError, match="site_unreachable") as caught:
        enrol(request)
    assert caught.value.message == "http://127.0.0.1:9 cannot be reached: nothing listens there"


def test_the_token_is_not_in_the_representation() -> None:
    assert "secret" not in repr(EnrolmentRequest("http://h", "secret", b"", "name"))
