"""An error that nobody foresaw is answered and logged without its words: they may quote a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from tracker_site.chat import views
from tracker_site.gateway.ports import Caller
from tracker_site.openai_api import endpoint as endpoints

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase
    from django.test import RequestFactory

WORDS = "words of a prompt"


def fail(*_args: object) -> NoReturn:
    raise ValueError(WORDS)


def assert_told_without_words(response: HttpResponseBase, logged: str) -> None:
    assert response.status_code == 500
    assert b"internal_error" in getattr(response, "content", b"")
    assert "failed: ValueError\n" in logged
    assert "in fail\n" in logged
    assert WORDS not in logged


async def test_of_the_api(
    rf: RequestFactory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def anybody(_request: HttpRequest) -> Caller:
        return Caller(user_id=1)

    async def function(_request: HttpRequest, _caller: Caller) -> HttpResponseBase:
        fail()

    monkeypatch.setattr(endpoints, "authenticate", anybody)
    response = await endpoints.endpoint("GET")(function)(rf.get("/v1/models"))
    assert_told_without_words(response, caplog.text)


async def test_of_the_chat(
    rf: RequestFactory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_stream", fail)
    response = await views.stream(rf.post("/chat/stream"))
    assert_told_without_words(response, caplog.text)
