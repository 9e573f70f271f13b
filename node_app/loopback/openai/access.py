"""Who may use the local API: programs of this machine, never a page in a browser of it.

Invariants: pure; checked for every request before anything else is read of it; one Host, and Origins only of this
endpoint (`node_app.loopback.access` says why).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.openai.errors import RequestError
from node_app.loopback.access import LOOPBACK, is_own_host, is_own_origin

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_access(hosts: Sequence[str], origins: Sequence[str], port: int) -> None:
    """Let pass only what is meant for this endpoint.

    Args:
        hosts: values of the request's Host headers.
        origins: values of its Origin headers.
        port: that this endpoint listens on.

    Raises:
        RequestError: 403 `host_not_allowed` or `origin_not_allowed`.
    """
    if len(hosts) != 1 or not is_own_host(hosts[0], port):
        message = f"This API answers to http://{LOOPBACK}:{port} only."
        raise RequestError("host_not_allowed", message, status=403)
    if not all(is_own_origin(origin, port) for origin in origins):
        message = "This API answers to programs of this machine, not to web pages."
        raise RequestError("origin_not_allowed", message, status=403)
