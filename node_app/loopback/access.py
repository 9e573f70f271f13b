"""Who may use an endpoint on loopback: programs of this machine, never a page in a browser of it.

Invariants: pure. The Host must be the endpoint itself, or a name that someone pointed at 127.0.0.1 would reach it (DNS
rebinding); an Origin must be the endpoint itself, or any page could send there (cross-site requests). Names are those
of 127.0.0.1, the only address listened on, in any case. A token is compared in constant time.
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
    """Let pass only requests that a program of this machine sends to this endpoint.

    Args:
        hosts: values of the request's Host headers; there must be one.
        origins: values of its Origin headers; programs send none.
        port: that this endpoint listens on.

    Raises:
        RequestRefusedError: 403; the host or an origin is another one.
    """
    if len(hosts) != 1 or not _is_own_host(hosts[0], port):
        raise RequestRefusedError(Reason.OTHER_HOST, HTTPStatus.FORBIDDEN)
    if not all(_is_own_origin(origin, port) for origin in origins):
        raise RequestRefusedError(Reason.OTHER_ORIGIN, HTTPStatus.FORBIDDEN)


def has_token(authorizations: Sequence[str], token: str) -> bool:
    """Whether a request carries `token` as its bearer token.

    Args:
        authorizations: values of its Authorization headers; there must be one.
        token: ASCII, as the address file holds it.
    """
    expected = f"Bearer {token}".encode()
    return len(authorizations) == 1 and hmac.compare_digest(authorizations[0].encode(), expected)


def _is_own_host(host: str, port: int) -> bool:
    return host.lower() in {f"{name}:{port}" for name in _NAMES}


def _is_own_origin(origin: str, port: int) -> bool:
    scheme, separator, host = origin.partition("://")
    return scheme.lower() == "http" and bool(separator) and _is_own_host(host, port)
