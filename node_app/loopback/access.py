"""Who may use an endpoint on loopback: programs of this machine, never a page in a browser of it.

Invariants: pure. The Host must be the endpoint itself, or a name that someone pointed at 127.0.0.1 would reach it (DNS
rebinding); an Origin must be the endpoint itself, or any page could send there (cross-site requests). Names are those
of 127.0.0.1, the only address listened on, in any case.
"""

from __future__ import annotations

from typing import Final

LOOPBACK: Final = "127.0.0.1"
_NAMES: Final = (LOOPBACK, "localhost")


def is_own_host(host: str, port: int) -> bool:
    """Whether a Host header names the endpoint on `port`."""
    return host.lower() in {f"{name}:{port}" for name in _NAMES}


def is_own_origin(origin: str, port: int) -> bool:
    """Whether an Origin header, which must be there, names the endpoint on `port`."""
    scheme, separator, host = origin.partition("://")
    return scheme.lower() == "http" and bool(separator) and is_own_host(host, port)
