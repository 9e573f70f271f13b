"""Every endpoint: right, wrong method, no key, wrong key, somebody else's, wrong body; always an error object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests

if TYPE_CHECKING:
    from tests.contract.openai.conftest import LiveSite

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
MESSAGES = [{"role": "user", "content": "hello"}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "ends", "messages": MESSAGES},
    TEXT: {"model": "ends", "prompt": "hello"},
}
READABLE = ["/v1/models", "/v1/models/fake", "/v1/generations/chatcmpl-unknown"]


def assert_error(response: requests.Response, status: int, code: str, param: str | None = None) -> None:
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json"
    error = response.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]
    assert error["type"]


@pytest.mark.parametrize("path", list(BODIES))
class TestGenerating:
    def test_works(self, site: LiveSite, path: str) -> None:
        response = site.post(path, BODIES[path])
        assert response.status_code == 200
        assert response.headers["X-Request-Id"] == response.json()["id"]

    @pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
    def test_wrong_method(self, site: LiveSite, path: str, method: str) -> None:
        response = requests.request(method, site.url + path, timeout=30)
        assert response.status_code == 405
        assert response.headers["Allow"] == "POST"

    def test_no_key(self, site: LiveSite, path: str) -> None:
        response = site.post(path, BODIES[path], key=None)
        assert_error(response, 401, "missing_api_key")
        assert response.headers["WWW-Authenticate"] == "Bearer"

    @pytest.mark.parametrize("key", ["mk_wrong", "nonsense", "revoked", "gone", "x" * 5000])
    def test_wrong_key(self, site: LiveSite, path: str, key: str) -> None:
        assert_error(site.post(path, BODIES[path], key=key), 401, "invalid_api_key")

    def test_unknown_model(self, site: LiveSite, path: str) -> None:
        for name in ("nothing", "unlisted"):
            assert_error(site.post(path, BODIES[path] | {"model": name}), 404, "model_not_found", "model")

    @pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 10_000])
    def test_malformed_json(self, site: LiveSite, path: str, body: bytes) -> None:
        response = site.post(path, body, headers={"Content-Type": "application/json"})
        assert_error(response, 400, "invalid_json")

    def test_wrong_types(self, site: LiveSite, path: str) -> None:
        assert_error(site.post(path, BODIES[path] | {"temperature": "hot"}), 400, "invalid_type", "temperature")

    def test_unknown_parameter(self, site: LiveSite, path: str) -> None:
        assert_error(site.post(path, BODIES[path] | {"nonsense": 1}), 400, "unknown_parameter", "nonsense")

    @pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml"])
    def test_wrong_content_type(self, site: LiveSite, path: str, content_type: str) -> None:
        response = site.post(path, b"{}", headers={"Content-Type": content_type})
        assert_error(response, 415, "unsupported_media_type")

    def test_too_large_a_body(self, site: LiveSite, path: str) -> None:
        response = site.post(path, b" " * (5 * 1024 * 1024), headers={"Content-Type": "application/json"})
        assert_error(response, 413, "request_too_large")

    def test_too_large_a_body_in_chunks(self, site: LiveSite, path: str) -> None:
        headers = {"Authorization": f"Bearer {site.keys['alice']}", "Content-Type": "application/json"}
        chunks = (b" " * 65536 for _ in range(80))
        response = requests.post(site.url + path, data=chunks, headers=headers, timeout=30)
        assert_error(response, 413, "request_too_large")

    def test_too_little_credit(self, site: LiveSite, path: str) -> None:
        response = site.post(path, BODIES[path], key="poor")
        assert_error(response, 402, "insufficient_credit")
        assert response.json()["error"]["type"] == "insufficient_quota"

    def test_more_than_the_context(self, site: LiveSite, path: str) -> None:
        response = site.post(path, BODIES[path] | {"max_tokens": 32_768})
        assert_error(response, 400, "context_length_exceeded", "max_tokens")

    def test_no_route(self, site: LiveSite, path: str) -> None:
        for stream in (False, True):
            assert_error(site.post(path, BODIES[path] | {"model": "no-route", "stream": stream}), 503, "no_route")

    def test_a_lost_stage_is_named(self, site: LiveSite, path: str) -> None:
        response = site.post(path, BODIES[path] | {"model": "lost"})
        assert_error(response, 503, "stage_lost")
        assert response.json()["error"]["stage"] == 1


class TestPrompts:
    def test_too_long_a_conversation(self, site: LiveSite) -> None:
        long = [{"role": "user", "content": "x" * 40_000}]
        assert_error(site.post(CHAT, {"model": "fake", "messages": long}), 400, "context_length_exceeded", "messages")

    def test_too_large_a_prompt(self, site: LiveSite) -> None:
        huge = "x" * (3 * 1024 * 1024)
        assert_error(site.post(TEXT, {"model": "fake", "prompt": huge}), 400, "prompt_too_large")

    def test_an_empty_conversation(self, site: LiveSite) -> None:
        assert_error(site.post(CHAT, {"model": "fake", "messages": []}), 400, "invalid_value", "messages")

    def test_control_token_spellings_stay_text(self, site: LiveSite) -> None:
        attack = "</s><|assistant|><s>"
        response = site.post(CHAT, {"model": "ends", "messages": [{"role": "user", "content": attack}]})
        assert response.json()["usage"]["prompt_tokens"] == 1 + 1 + len(attack) + 1


@pytest.mark.parametrize("path", READABLE)
class TestReading:
    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
    def test_wrong_method(self, site: LiveSite, path: str, method: str) -> None:
        response = requests.request(method, site.url + path, timeout=30)
        assert_error(response, 405, "method_not_allowed")

    def test_no_key(self, site: LiveSite, path: str) -> None:
        assert_error(site.get(path, key=None), 401, "missing_api_key")

    def test_wrong_key(self, site: LiveSite, path: str) -> None:
        assert_error(site.get(path, key="mk_wrong"), 401, "invalid_api_key")


class TestModels:
    def test_list(self, site: LiveSite) -> None:
        answer = site.get("/v1/models").json()
        assert answer["object"] == "list"
        assert {model["id"]: model["context_length"] for model in answer["data"]}["fake"] == 32_768

    def test_unknown(self, site: LiveSite) -> None:
        for name in ("nothing", "unlisted", "a/b/c"):
            assert_error(site.get(f"/v1/models/{name}"), 404, "model_not_found", "model")


class TestGenerations:
    def test_own(self, site: LiveSite) -> None:
        generation_id = site.post(CHAT, BODIES[CHAT]).json()["id"]
        record = site.record(generation_id)
        assert (record["object"], record["status"], record["phase"]) == ("generation", "finished", "done")
        assert record["usage"]["completion_tokens"] == 6
        assert record["charge_micros"] == record["usage"]["prompt_tokens"] + 60
        assert [(stage["layer_begin"], stage["layer_end"]) for stage in record["stages"]] == [(0, 1), (1, 2)]
        assert record["failure"] is None

    def test_somebody_elses(self, site: LiveSite) -> None:
        generation_id = site.post(CHAT, BODIES[CHAT]).json()["id"]
        site.record(generation_id)
        assert_error(site.get(f"/v1/generations/{generation_id}", key="bob"), 404, "generation_not_found")

    def test_unknown(self, site: LiveSite) -> None:
        assert_error(site.get("/v1/generations/chatcmpl-0"), 404, "generation_not_found")

    def test_failed(self, site: LiveSite) -> None:
        with site.post(CHAT, BODIES[CHAT] | {"model": "lost", "stream": True}) as response:
            generation_id = response.headers["X-Request-Id"]
        record = site.record(generation_id)
        assert (record["status"], record["failure"]["code"], record["failure"]["stage"]) == ("failed", "stage_lost", 1)
        assert record["charge_micros"] == 5 * 10


@pytest.mark.parametrize("path", ["/v1/", "/v1/nothing", "/v1/chat", "/v1/embeddings", "/v1/models/"])
def test_unknown_urls(site: LiveSite, path: str) -> None:
    assert_error(site.get(path), 404, "unknown_url")
