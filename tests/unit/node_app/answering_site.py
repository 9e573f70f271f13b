"""A site that answers each request with bytes that were given, whole or one by one."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# A byte comes so often that no single read is slow.
DRIP_S: Final = 0.02


class AnsweringSite:
    """Answers each connection with the next of its answers; those after `drip_from` bytes come one by one."""

    def __init__(self, listener: socket.socket, answers: list[tuple[bytes, int]]) -> None:
        self.asked: list[bytes] = []
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._listener = listener
        self._answers = answers

    def serve(self) -> None:
        for answer, drip_from in self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.asked.append(connection.recv(65536))
                self._answer(connection, answer, drip_from)

    @staticmethod
    def _answer(connection: socket.socket, answer: bytes, drip_from: int) -> None:
        try:
            connection.sendall(answer[:drip_from])
            for at in range(drip_from, len(answer)):
                time.sleep(DRIP_S)
                connection.sendall(answer[at : at + 1])
        except OSError:
            return


@contextmanager
def a_site(*answers: tuple[bytes, int]) -> Iterator[AnsweringSite]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        site = AnsweringSite(listener, list(answers))
        thread = threading.Thread(target=site.serve, daemon=True)
        thread.start()
        yield site


def answer_of(body: bytes, *, promised: int | None = None) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body) if promised is None else promised}\r\n\r\n"
    return head.encode() + body


def at_once(answer: bytes) -> tuple[bytes, int]:
    return answer, len(answer)


def answers_of_no_site() -> dict[str, bytes]:
    """What other programs, or hostile ones, may answer, by what is wrong with it."""
    whole = b"HTTP/1.1 200 OK\r\n"
    chunked = whole + b"Transfer-Encoding: chunked\r\n\r\n"
    return {
        "nothing": b"",
        "garbage": b"\x00\xff" * 500,
        "no status": b"HTTP/1.1 abc\r\n\r\n",
        "a negative length": whole + b"Content-Length: -5\r\n\r\nabc",
        "a length that never comes": whole + b"Content-Length: 999999999999999\r\n\r\nabc",
        "a length of 5,000 digits": whole + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nabc",
        "two lengths": whole + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\nabcdefg",
        "a chunk of no length": chunked + b"zz\r\nabc\r\n",
        "a chunk of a negative length": chunked + b"-5\r\nabc\r\n",
        "a chunk that never comes": chunked + b"fffffffffffffffff\r\nabc\r\n",
        "a chunk that is cut off": chunked + b"5\r\nab",
        "a line without end": whole + b"X: " + b"a" * 70_000,
        "too many headers": whole + b"".join(b"X%d: y\r\n" % number for number in range(200)) + b"\r\n",
        "a header that is none": whole + b"\xff\xff no colon\r\n\r\nx",
        "a way to no address": b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n",
        "packed garbage": whole + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8bxx",
        "nothing to say": b"HTTP/1.1 204 No Content\r\n\r\n",
        "an unheard-of status": b"HTTP/1.1 999 Hm\r\nContent-Length: 0\r\n\r\n",
    }
