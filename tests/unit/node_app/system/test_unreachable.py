"""Why a site cannot be reached is told in words, whichever library says so."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import requests
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

from node_app.system.unreachable import why_unreachable
from tests.simulators.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 0.3
NO_TLS = "does not speak TLS: is it http://?"


def why_not(url: str, **options: object) -> str:
    with pytest.raises((requests.RequestException, ValueError)) as caught:
        requests.get(url, timeout=TIMEOUT_S, allow_redirects=False, **options)
    return why_unreachable(caught.value)


def why_no_socket(address: str) -> str:
    async def open_one() -> None:
        async with connect(address, open_timeout=TIMEOUT_S, proxy=None):
            pass

    with pytest.raises(Exception) as caught:  # noqa: PT011 - any: what is told of it is the test
        asyncio.run(open_one())
    return why_unreachable(caught.value)


@contextmanager
def a_listener(answer: bytes | None) -> Iterator[str]:
    """Answers one connection with bytes and closes it; None: keeps it and says nothing. Yields `HOST:PORT`."""
    over = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            if answer is None:
                over.wait(5.0)
            else:
                connection.recv(65536)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        thread.join(5.0)


def test_where_nothing_listens() -> None:
    address = f"127.0.0.1:{free_port()}"
    told = {why_not(f"http://{address}"), why_not(f"https://{address}"), why_no_socket(f"ws://{address}")}
    assert told == {"nothing listens there"}


def test_an_unknown_name() -> None:
    assert why_not("http://no.such.host.invalid") == "its name is not found"


def test_a_proxy_is_not_taken_for_the_site() -> None:
    proxy = f"http://127.0.0.1:{free_port()}"
    assert "the proxy" in why_not("http://site.example", proxies={"http": proxy})


@pytest.mark.parametrize(
    ("scheme", "answer", "part"),
    [
        ("http", None, "does not answer in time"),
        ("https", None, NO_TLS),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", NO_TLS),
        ("http", b"", "closed the connection"),
        ("http", b"\x00\xff" * 100, "not understood"),
    ],
)
def test_a_listener_that_is_no_such_site(scheme: str, answer: bytes | None, part: str) -> None:
    with a_listener(answer) as address:
        assert part in why_not(f"{scheme}://{address}")


@pytest.mark.parametrize(
    ("scheme", "answer", "part"),
    [
        ("ws", None, "does not answer in time"),
        ("wss", b"HTTP/1.1 400 Bad Request\r\n\r\n", NO_TLS),
        ("ws", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "answers with status 403"),
    ],
)
def test_a_listener_that_opens_no_websocket(scheme: str, answer: bytes | None, part: str) -> None:
    with a_listener(answer) as address:
        assert part in why_no_socket(f"{scheme}://{address}")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(113, "No route to host"), "No route to host"),
        (ssl.SSLCertVerificationError(1, "self-signed certificate"), "its certificate is not accepted here"),
        (TimeoutError(), "it does not answer in time"),
        (TimeoutError(110, "Connection timed out"), "it does not answer in time"),
        (ConnectionResetError(), "it closed the connection without an answer"),
        (ConnectionClosedError(None, None), "it closed the connection without an answer"),
        (RuntimeError("the token is hunter2"), "its answer is not understood"),
    ],
)
def test_errors_of_the_system(error: BaseException, words: str) -> None:
    assert why_unreachable(error) == words


def test_an_alert_is_tls() -> None:
    error = ssl.SSLError(1, "")
    error.reason = "TLSV1_ALERT_PROTOCOL_VERSION"
    assert why_unreachable(error) == "it accepts no version or cipher of TLS that this machine offers"


def test_causes_in_a_circle_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert why_unreachable(first) == "its answer is not understood"
