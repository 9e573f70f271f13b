"""Clients on bare sockets: some that read all they get and note when, some that never read."""

from __future__ import annotations

import fcntl
import json
import socket
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.answers import CHAT, READ_TIMEOUT_S
from tests.e2e.stack import Stack

# Small, so that it is the site that has to wait, not the client's kernel that takes it all.
SMALL_BUFFER_BYTES = 4096
PIECE = b"data: {"
END = b"data: [DONE]"
READ_BYTES = 65_536


def ask(stack: Stack, body: dict[str, Any], *, buffer_bytes: int = 0) -> socket.socket:
    """Send a request for a stream on a connection of its own; reading it is the caller's."""
    site = urlsplit(stack.site_url)
    content = json.dumps(body | {"stream": True}).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: {site.netloc}\r\nAuthorization: Bearer {stack.api_key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    connection = socket.socket()
    connection.settimeout(READ_TIMEOUT_S)
    if buffer_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    connection.connect((site.hostname, site.port))
    connection.sendall(head.encode() + content)
    return connection


def until_full(connection: socket.socket, still_s: float = 0.3) -> None:
    """Wait until nothing more comes into the connection's buffer: whoever writes has to wait for us."""
    limit_s = time.monotonic() + READ_TIMEOUT_S
    held_bytes, since_s = 0, time.monotonic()
    while held_bytes == 0 or time.monotonic() - since_s < still_s:
        assert time.monotonic() < limit_s, "the buffer never stood still"
        time.sleep(0.02)
        now_bytes = int.from_bytes(fcntl.ioctl(connection, termios.FIONREAD, bytes(4)), sys.byteorder)
        if now_bytes != held_bytes:
            held_bytes, since_s = now_bytes, time.monotonic()


def read_all(connection: socket.socket) -> bytes:
    """Everything until the other end closes."""
    pieces = []
    while piece := connection.recv(READ_BYTES):
        pieces.append(piece)
    return b"".join(pieces)


class Reader:
    """Reads one stream after the other in a thread of its own, until told to stop."""

    def __init__(self, stack: Stack, body: dict[str, Any]) -> None:
        self._stack = stack
        self._body = body
        self._is_over = threading.Event()
        self._pieces: list[tuple[float, int]] = []

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Read for the body's time."""
        thread = threading.Thread(target=self._read)
        thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            thread.join(2 * READ_TIMEOUT_S)
            assert not thread.is_alive(), "a reader did not end"

    def pieces(self, begin_s: float, end_s: float) -> int:
        """Pieces of answers that came between two moments."""
        return sum(count for at_s, count in list(self._pieces) if begin_s < at_s <= end_s)

    def _read(self) -> None:
        while not self._is_over.is_set():
            with ask(self._stack, self._body) as connection:
                self._read_one(connection)

    def _read_one(self, connection: socket.socket) -> None:
        kept = b""  # the end of what came, which may hold the beginning of a mark
        while not self._is_over.is_set() and (data := connection.recv(READ_BYTES)):
            text = kept + data
            self._pieces.append((time.monotonic(), text.count(PIECE) - kept.count(PIECE)))
            if END in text:
                return
            kept = text[1 - len(END) :]
