"""Who may use the local API: programs of this machine, never a page in a browser of it.

Invariants: pure; checked for every request before anything else is read of it. The Host must be this very endpoint, or
a name that someone pointed at 127.0.0.1 would reach it (DNS rebinding); an Origin must be absent or this endpoint, or
any page could post here (cross-site requests). Source: design of the loopback status endpoint, `local_http.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.openai.errors import RequestError

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
    own = {f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"}
    if len(hosts) != 1 or hosts[0].lower() not in own:
        message = f"This API answers to http://127.0.0.1:{port} only."
        raise RequestError("host_not_allowed", message, status=403)
    if any(origin.lower() not in {f"http://{host}" for host in own} for origin in origins):
        message = "This API answers to programs of this machine, not to web pages."
        raise RequestError("origin_not_allowed", message, status=403)
