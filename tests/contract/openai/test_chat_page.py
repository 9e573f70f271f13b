"""The chat page and its stream: for signed-in people, with a CSRF token, with the API's own events."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import requests

if TYPE_CHECKING:
    from tests.contract.openai.conftest import LiveSite

BODY: dict[str, Any] = {"model": "ends", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def browser(site: LiveSite) -> requests.Session:
    """A session signed in as Alice."""
    session = requests.Session()
    login = f"{site.url}/account/login/"
    session.get(login, timeout=30)
    form = {"username": "alice", "password": "a long pass phrase", "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    response = session.post(login, data=form, headers={"Referer": login}, timeout=30)
    assert response.ok
    return session


def post(site: LiveSite, session: requests.Session, body: Any, **headers: str) -> requests.Response:
    token = {"X-CSRFToken": session.cookies.get("csrftoken", "")} | headers
    return session.post(f"{site.url}/chat/stream", json=body, headers=token, timeout=30)


def test_strangers_are_sent_to_sign_in(site: LiveSite) -> None:
    response = requests.get(f"{site.url}/chat/", timeout=30, allow_redirects=False)
    assert (response.status_code, response.headers["Location"]) == (302, "/account/login/?next=/chat/")


def test_the_page_offers_listed_models_and_loads_only_its_own_files(site: LiveSite, browser: requests.Session) -> None:
    response = browser.get(f"{site.url}/chat/", timeout=30)
    assert response.status_code == 200
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert '<option value="fake"' in response.text
    assert "unlisted" not in response.text
    sources = re.findall(r'(?:src|href)="([^"]+)"', response.text)
    assert sources
    assert all(source.startswith("/") for source in sources)
    assert not re.search(r"\son\w+=|<style|<script(?![^>]*\ssrc=)", response.text)


def test_every_file_of_the_page_is_served(site: LiveSite, browser: requests.Session) -> None:
    found = {"chat/main.js"}
    todo = ["chat/main.js", "chat/chat.css"]
    while todo:
        response = browser.get(f"{site.url}/static/{todo.pop()}", timeout=30)
        assert response.status_code == 200
        imports = {f"chat/{name}" for name in re.findall(r'from "\./(\w+\.js)"', response.text)}
        todo.extend(imports - found)
        found |= imports
    assert len(found) == 7


def test_the_stream_carries_text_usage_and_telemetry(site: LiveSite, browser: requests.Session) -> None:
    response = post(site, browser, BODY)
    assert response.status_code == 200
    events = response.content.decode()[:-2].split("\n\n")
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])
    assert text == "hello"
    assert chunks[-1]["usage"]["completion_tokens"] == 6
    shown = [chunk["telemetry"] for chunk in chunks if "telemetry" in chunk]
    assert [stage["layer_end"] for stage in shown[-1]["stages"]] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [({"model": "unlisted"}, 404, "model_not_found"), ({"n": 2}, 400, "unsupported_value"),
     ({"model": "no-route"}, 503, "no_route")],
)  # fmt: skip
def test_refusals_are_the_apis(
    site: LiveSite, browser: requests.Session, changes: dict[str, Any], status: int, code: str
) -> None:
    response = post(site, browser, BODY | changes)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_without_a_csrf_token_nothing_runs(site: LiveSite, browser: requests.Session) -> None:
    for token in ("", "wrong"):
        assert post(site, browser, BODY, **{"X-CSRFToken": token}).status_code == 403


def test_a_stranger_with_a_csrf_token_is_told_to_sign_in(site: LiveSite) -> None:
    session = requests.Session()
    session.get(f"{site.url}/account/login/", timeout=30)
    response = post(site, session, BODY)
    assert (response.status_code, response.json()["error"]["code"]) == (401, "not_signed_in")


def test_an_api_key_does_not_open_the_page(site: LiveSite) -> None:
    session = requests.Session()
    session.get(f"{site.url}/account/login/", timeout=30)
    response = post(site, session, BODY, Authorization=f"Bearer {site.keys['alice']}")
    assert response.status_code == 401


def test_only_posts_are_streamed(site: LiveSite, browser: requests.Session) -> None:
    response = browser.get(f"{site.url}/chat/stream", timeout=30)
    assert (response.status_code, response.json()["error"]["code"]) == (405, "method_not_allowed")


def test_the_start_page_leads_to_the_chat(site: LiveSite) -> None:
    response = requests.get(f"{site.url}/", timeout=30, allow_redirects=False)
    assert (response.status_code, response.headers["Location"]) == (302, "/chat/")
