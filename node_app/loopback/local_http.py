"""The little of HTTP/1.1 that the loopback status endpoint needs, without I/O.

Invariants: pure; strict (one request a connection, no body, bounded head); a page in the volunteer's browser cannot
use it: Host and Origin must be this very endpoint's (`access.py`), and the bearer token must match, compared in
constant time.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from node_app.loopback.access import is_own_host, is_own_origin

HEAD_LIMIT_BYTES: Final = 8192
HEADERS_MAX: Final = 64
METHODS: Final = frozenset({"GET", "POST"})


class HttpError(Exception):
    """The request is answered with an error status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Request:
    """A request's head; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]


def parse_head(data: bytes) -> Request:
    """Parse a request's head, blank line included.

    Raises:
        HttpError: it is not one, or asks for what is not offered.
    """
    try:
        lines = data.decode("ascii").split("\r\n")
        method, path, version = lines[0].split(" ")
    except ValueError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, "not an HTTP request") from error
    if version not in {"HTTP/1.0", "HTTP/1.1"} or method not in METHODS or not path.startswith("/"):
        raise HttpError(HTTPStatus.BAD_REQUEST, "not a request that is offered")
    headers = _parse_headers([line for line in lines[1:] if line])
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "requests have no body")
    return Request(method, path, headers)


def _parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if len(lines) > HEADERS_MAX:
        raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many headers")
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip() or name.lower() in headers:
            raise HttpError(HTTPStatus.BAD_REQUEST, "a header that is none, or twice there")
        headers[name.lower()] = value.strip()
    return headers


def authorise(request: Request, port: int, token: str) -> None:
    """Let pass only who runs on this machine and can read the state directory.

    Raises:
        HttpError: anybody else.
    """
    if not is_own_host(request.headers.get("host", ""), port):
        raise HttpError(HTTPStatus.FORBIDDEN, "not this host")
    origin = request.headers.get("origin")
    if origin is not None and not is_own_origin(origin, port):
        raise HttpError(HTTPStatus.FORBIDDEN, "not from other origins")
    given = request.headers.get("authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise HttpError(HTTPStatus.UNAUTHORIZED, "wrong token")


def write_response(status: HTTPStatus, body: bytes) -> bytes:
    """Return a whole JSON response that ends the connection."""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
