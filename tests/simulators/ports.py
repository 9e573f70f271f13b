"""Ports of this machine for what a test or a benchmark starts."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])
