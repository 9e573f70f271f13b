"""Checks that a request on loopback comes from a program of this machine and not from a web page in its browser.

Invariants: pure. The Host must name the endpoint itself; otherwise a page could reach it by a name that leads to
127.0.0.1 (DNS rebinding). If there is an Origin, it must name the endpoint too; otherwise any page could send requests
(cross-site requests). The names are 127.0.0.1 and localhost, in upper or lower case. Tokens are compared in constant
time.
"""

from __future__ import annotations

import hmac
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from node_app.loopback.refusals import Reason, RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOPBACK: Final = "127.0.0.1"
_NAMES: Final = (LOOPBACK, "localhost")


def check_access(hosts: Sequence[str], origins: Sequence[str], port: int) -> None:
    """Refuse a request unless a program of this machine sends it to this endpoint.

    Args:
        hosts: values of the request's Host headers; there must be exactly one.
        origins: values of its Origin headers; programs send none.
        port: the port of this endpoint.

    Raises:
        RequestRefusedError: 403, the Host or an Origin names something else.
    """
    if len(hosts) != 1 or not _is_own_host(hosts[0], port):
        raise RequestRefusedError(Reason.OTHER_HOST, HTTPStatus.FORBIDDEN)
    if not all(_is_own_origin(origin, port) for origin in origins):
        raise RequestRefusedError(Reason.OTHER_ORIGIN, HTTPStatus.FORBIDDEN)


def has_token(authorizations: Sequence[str], token: str) -> bool:
    """Whether a request carries `token` as its bearer token.

    Args:
        authorizations: values of its Authorization headers; there must be exactly one.
        token: the token in the agent's address file, ASCII.
    """
    expected = f"Bearer {token}".encode()
    return len(authorizations) == 1 and hmac.compare_digest(authorizations[0].encode(), expected)


def _is_own_host(host: str, port: int) -> bool:
    return host.lower() in {f"{name}:{port}" for name in _NAMES}


def _is_own_origin(origin: str, port: int) -> bool:
    scheme, separator, host = origin.partition("://")
    return scheme.lower() == "http" and bool(separator) and _is_own_host(host, port)
