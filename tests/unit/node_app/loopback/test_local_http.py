from __future__ import annotations

from http import HTTPStatus

import pytest

from node_app.loopback.local_http import HttpError, Request, authorise, parse_head, write_response

PORT, TOKEN = 5000, "tok"


def test_a_head_is_parsed() -> None:
    request = parse_head(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1:5000\r\nX-Any:  v \r\n\r\n")
    assert request == Request("GET", "/status", {"host": "127.0.0.1:5000", "x-any": "v"})


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /status\r\n\r\n", 400),
        (b"GET /status HTTP/2\r\n\r\n", 400),
        (b"DELETE /status HTTP/1.1\r\n\r\n", 400),
        (b"GET status HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: 1\r\na: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA : 1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: 1\r\n" % number for number in range(65)) + b"\r\n", 431),
    ],
)
def test_anything_else_is_refused(head: bytes, status: int) -> None:
    with pytest.raises(HttpError) as caught:
        parse_head(head)
    assert caught.value.status == status


def request(**headers: str) -> Request:
    return Request("GET", "/status", headers)


@pytest.mark.parametrize("host", ["127.0.0.1:5000", "localhost:5000", "LocalHost:5000"])
@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:5000", "http://localhost:5000"])
def test_who_has_the_token_passes(host: str, origin: str | None) -> None:
    headers = {"host": host, "authorization": "Bearer tok"} | ({"origin": origin} if origin else {})
    authorise(Request("GET", "/", headers), PORT, TOKEN)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "Bearer tok"}, 403),
        ({"host": "evil.example:5000", "authorization": "Bearer tok"}, 403),
        ({"host": "127.0.0.1:5001", "authorization": "Bearer tok"}, 403),
        ({"host": "127.0.0.1:5000", "origin": "http://evil.example", "authorization": "Bearer tok"}, 403),
        ({"host": "127.0.0.1:5000", "origin": "null", "authorization": "Bearer tok"}, 403),
        ({"host": "127.0.0.1:5000"}, 401),
        ({"host": "127.0.0.1:5000", "authorization": "Bearer no"}, 401),
        ({"host": "127.0.0.1:5000", "authorization": "tok"}, 401),
    ],
)
def test_everybody_else_is_refused(headers: dict[str, str], status: int) -> None:
    with pytest.raises(HttpError) as caught:
        authorise(request(**headers), PORT, TOKEN)
    assert caught.value.status == status


def test_a_response_ends_the_connection_and_is_not_kept() -> None:
    response = write_response(HTTPStatus.OK, b"{}")
    assert response.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 2\r\n" in response
    assert b"Connection: close\r\n\r\n{}" in response
    assert b"no-store" in response
