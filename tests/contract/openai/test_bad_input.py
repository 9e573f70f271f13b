"""What no client library would send: HTTP, JSON and values at their edges. Each is refused or understood, never worse.

Every refusal of the site's own is an OpenAI error object; what is no HTTP at all is refused by the server beneath it.
"""

from __future__ import annotations

import gzip
import http.client
import io
import json
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.contract.openai.conftest import LiveSite

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
GOOD = json.dumps({"model": "ends", "messages": [{"role": "user", "content": "hello"}]}).encode()
DEADLINE_S = 15.0
MIB = 1024 * 1024


class Answer:
    """What came back: a status (0 where the connection was closed without one) and a body."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)
        response = http.client.HTTPResponse(self)  # type: ignore[arg-type]  # reads from what `makefile` gives
        try:
            response.begin()
            self.status, self.body = response.status, response.read()
        except http.client.BadStatusLine:
            self.status, self.body = 0, data

    def makefile(self, _mode: str) -> io.BytesIO:
        return self._file

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])


def request(site: LiveSite, body: bytes = GOOD, **changes: Any) -> bytes:
    """A request as bytes; `changes` replace its parts, `extra` adds header lines, None leaves a part out."""
    target = {"method": "POST", "path": CHAT, "version": "1.1", **changes}
    headers = {
        "Host": changes.get("host", urlsplit(site.url).netloc),
        "Authorization": changes.get("authorization", f"Bearer {site.keys['alice']}"),
        "Content-Type": changes.get("content_type", "application/json"),
        "Content-Length": changes.get("length", str(len(body))),
        "Connection": "close",
    }
    lines = [f"{target['method']} {target['path']} HTTP/{target['version']}"]
    lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
    lines += changes.get("extra", [])
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def exchange(site: LiveSite, parts: Iterable[bytes]) -> Answer:
    """Send parts until the server has had enough, and read to the end of the connection."""
    address = urlsplit(site.url)
    received = b""
    with closing(socket.create_connection((address.hostname or "", address.port or 0), timeout=DEADLINE_S)) as peer:
        try:
            for part in parts:
                peer.sendall(part)
            while data := peer.recv(65536):
                received += data
        except ConnectionError:
            pass  # closed on us, perhaps with an answer
    return Answer(received)


def is_well(site: LiveSite) -> bool:
    return exchange(site, [request(site)]).status == 200


# --- HTTP ---

ODD_HTTP: dict[str, tuple[dict[str, Any], int]] = {
    "HTTP/1.0": ({"version": "1.0"}, 200),
    "HTTP/1.0 without a host": ({"version": "1.0", "host": None}, 200),
    "an unknown version": ({"version": "9.9"}, 400),
    "a charset": ({"content_type": "application/json; charset=utf-8"}, 200),
    "whether to go on": ({"extra": ["Expect: 100-continue"]}, 200),
    "a negative length": ({"length": "-5"}, 400),
    "a length that is no number": ({"length": "abc"}, 400),
    "two lengths": ({"extra": ["Content-Length: 3"]}, 400),
    "a length and chunks": ({"extra": ["Transfer-Encoding: chunked"]}, 400),
    "chunks that are none": ({"body": b"zz\r\nhello", "length": None, "extra": ["Transfer-Encoding: chunked"]}, 400),
    "an unknown coding": ({"length": None, "extra": ["Transfer-Encoding: gzip"]}, 400),
    "6,000 headers": ({"extra": [f"X-{number}: y" for number in range(6000)]}, 400),
    "a header of a megabyte": ({"extra": ["X: " + "y" * MIB]}, 0),
    "a path of a megabyte": ({"path": "/v1/models/" + "a" * MIB}, 0),
    "a broken form": ({"content_type": "multipart/form-data; boundary=x"}, 400),
}


@pytest.mark.parametrize(("changes", "status"), ODD_HTTP.values(), ids=list(ODD_HTTP))
def test_odd_http(site: LiveSite, changes: dict[str, Any], status: int) -> None:
    assert exchange(site, [request(site, **changes)]).status == status
    assert is_well(site)


@pytest.mark.parametrize("data", [b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"\0" * 70_000])
def test_what_is_no_http(site: LiveSite, data: bytes) -> None:
    assert exchange(site, [data]).status in {0, 400}
    assert is_well(site)


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "the key in the query": ({"path": f"{CHAT}?api_key=KEY", "authorization": None}, 401, "missing_api_key"),
    "an empty key": ({"authorization": "Bearer "}, 401, "missing_api_key"),
    "another scheme": ({"authorization": "Basic YTpi"}, 401, "missing_api_key"),
    "a key of other letters": ({"authorization": "Bearer \xe9\xff"}, 401, "invalid_api_key"),
    "a second key": ({"extra": ["Authorization: Bearer wrong"]}, 401, "invalid_api_key"),
    "another host": ({"host": "evil.example"}, 400, "bad_request"),
    "a host that is none": ({"host": "a b/c"}, 400, "bad_request"),
    "no content type": ({"content_type": None}, 415, "unsupported_media_type"),
    "a compressed body": ({"body": gzip.compress(GOOD), "extra": ["Content-Encoding: gzip"]}, 400, "invalid_json"),
    "GET": ({"method": "GET"}, 405, "method_not_allowed"),
    "a made-up method": ({"method": "BREW"}, 405, "method_not_allowed"),
    "a zero in the path": ({"method": "GET", "path": "/v1/models/%00"}, 404, "model_not_found"),
    "a path that is no UTF-8": ({"method": "GET", "path": "/v1/models/%ff%fe"}, 404, "model_not_found"),
}


@pytest.mark.parametrize(("changes", "status", "code"), REFUSED.values(), ids=list(REFUSED))
def test_odd_requests_get_error_objects(site: LiveSite, changes: dict[str, Any], status: int, code: str) -> None:
    changes = {**changes, "path": changes.get("path", CHAT).replace("KEY", site.keys["alice"])}
    answer = exchange(site, [request(site, **changes)])
    assert (answer.status, answer.code) == (status, code), answer.body


# --- bodies that are too large ---


def test_a_body_that_is_declared_too_large_is_refused_before_it_is_sent(site: LiveSite) -> None:
    for length in (4 * MIB + 1, 10**30):
        answer = exchange(site, [request(site, b"", length=str(length), extra=["Expect: 100-continue"])])
        assert (answer.status, answer.code) == (413, "request_too_large")


def test_a_body_without_an_end_is_cut_off_at_the_limit(site: LiveSite) -> None:
    before = site.resident_bytes
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    head = request(site, b"", length=None, extra=["Transfer-Encoding: chunked"])
    sent = 0

    def parts() -> Iterable[bytes]:
        nonlocal sent
        yield head
        for _ in range(2048):  # 128 MiB
            yield chunk
            sent += len(chunk)
        yield b"0\r\n\r\n"

    answer = exchange(site, parts())
    grown = site.resident_bytes - before
    print(f"{sent / MIB:.0f} MiB sent, {grown / MIB:.1f} MiB grown, status {answer.status}")
    assert answer.status in {413, 0}  # 0: the answer was lost with the connection, which was cut
    assert sent > 8 * MIB
    assert grown < 24 * MIB
    assert is_well(site)


def test_the_largest_body_is_read(site: LiveSite) -> None:
    """The control: at the limit it is the JSON that is refused, not its size."""
    answer = exchange(site, [request(site, GOOD + b" " * (4 * MIB - len(GOOD)))])
    assert answer.status == 200
    answer = exchange(site, [request(site, b" " * (4 * MIB))])
    assert (answer.status, answer.code) == (400, "invalid_json")


# --- JSON ---


def with_field(field: bytes) -> bytes:
    return GOOD[:-1] + b", " + field + b"}"


ODD_JSON: dict[str, tuple[bytes, int, str]] = {
    "NaN": (with_field(b'"temperature": NaN'), 400, "invalid_value"),
    "Infinity": (with_field(b'"top_p": Infinity'), 400, "invalid_value"),
    "too large a float": (with_field(b'"temperature": 1e999'), 400, "invalid_value"),
    "5,000 digits": (with_field(b'"seed": ' + b"9" * 5000), 400, "invalid_json"),
    "30 digits": (with_field(b'"max_tokens": ' + b"9" * 30), 400, "invalid_value"),
    "a seed of 65 bits": (with_field(b'"seed": 18446744073709551616'), 400, "invalid_value"),
    "an exponent": (with_field(b'"max_tokens": 1e2'), 400, "invalid_type"),
    "a negative limit": (with_field(b'"max_tokens": -1'), 400, "invalid_value"),
    "the same key twice": (with_field(b'"model": "nothing"'), 404, "model_not_found"),
    "3,000 levels": (with_field(b'"metadata": ' + b"[" * 3000 + b"]" * 3000), 400, "invalid_json"),
    "half a surrogate pair": (GOOD.replace(b"hello", b"\\ud800"), 400, "invalid_json"),
    "another encoding": (GOOD.decode().encode("utf-16"), 400, "invalid_json"),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, 400, "invalid_json"),
    "two documents": (GOOD + GOOD, 400, "invalid_json"),
    "5,000 messages": (json.dumps({"model": "ends", "messages": [{"role": "user", "content": "x"}] * 5000}).encode(),
                       400, "invalid_value"),
    "a bias of no token": (with_field(b'"logit_bias": {"5000": 1}'), 400, "bad_token_id"),
    "an empty stop string": (with_field(b'"stop": ""'), 400, "invalid_value"),
    "17 stop strings": (with_field(b'"stop": ' + json.dumps(["a"] * 17).encode()), 400, "invalid_value"),
    "tools": (with_field(b'"tools": [{"type": "function"}]'), 400, "unsupported_parameter"),
    "an image": (GOOD.replace(b'"hello"', b'[{"type": "image_url", "image_url": {"url": "x"}}]'), 400,
                 "unsupported_content"),
    "JSON mode": (with_field(b'"response_format": {"type": "json_object"}'), 400, "unsupported_parameter"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "status", "code"), ODD_JSON.values(), ids=list(ODD_JSON))
def test_odd_json(site: LiveSite, body: bytes, status: int, code: str) -> None:
    answer = exchange(site, [request(site, body)])
    assert (answer.status, answer.code) == (status, code), answer.body


@pytest.mark.parametrize("text", [b"\\ud83d\\ude00", b"a\\u0000b", b""], ids=["a whole pair", "a zero", "nothing"])
def test_odd_text_is_text(site: LiveSite, text: bytes) -> None:
    assert exchange(site, [request(site, GOOD.replace(b"hello", text))]).status == 200


@pytest.mark.parametrize(
    ("prompt", "code"), [([1, 2, 300], "bad_token_id"), ([2**31], "invalid_type"), ([], "invalid_type")]
)
def test_prompts_of_ids_that_are_none(site: LiveSite, prompt: list[int], code: str) -> None:
    answer = exchange(site, [request(site, json.dumps({"model": "ends", "prompt": prompt}).encode(), path=TEXT)])
    assert (answer.status, answer.code) == (400, code)


def test_none_of_this_left_a_trace_of_a_crash_or_of_text(site: LiveSite) -> None:
    """Runs last in this file; what it needs is that the others ran before it."""
    log = site.log.read_text(encoding="utf-8")
    assert "Traceback" not in log
    assert "hello" not in log
    assert site.open_holds() == 0
