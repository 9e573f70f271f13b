"""Why a site cannot be reached, in words instead of exceptions' names.

Invariants: pure; imports no library of the network, of which any may be missing; says nothing of the address itself and
quotes nothing that came from outside.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_TLS: Final = "it does not speak TLS: is it http://?"
# How the ssl module words a handshake that takes too long, which has no type of its own.
_HANDSHAKE_TIMEOUT: Final = "handshake operation timed out"
# By name: each library has its own.
_CLOSED_ERRORS: Final = frozenset({"ConnectionClosedError", "ConnectionClosedOK"})
_PROXY_ERRORS: Final = frozenset({"InvalidProxy", "ProxyError"})
_CLOSED: Final = "it closed the connection without an answer"
_SAID_BY_TYPE: Final[dict[type[BaseException], str]] = {
    ConnectionRefusedError: "nothing listens there",
    socket.gaierror: "its name is not found",
    ConnectionResetError: _CLOSED,  # RemoteDisconnected is one
    BrokenPipeError: _CLOSED,
}


def why_unreachable(error: BaseException) -> str:
    """Return why a request or a connection failed, as words that follow "URL cannot be reached: ".

    Args:
        error: of requests, urllib3, websockets or the system; what it was raised from is read as well.
    """
    causes = list(_causes(error))
    words = (_words(cause) for cause in causes)
    return next((found for found in words if found), None) or _by_number(causes) or "what answers is not understood"


def _words(error: BaseException) -> str:
    if type(error).__name__ in _PROXY_ERRORS:
        return "the proxy that the environment names cannot be used"
    if type(error).__name__ in _CLOSED_ERRORS:
        return _CLOSED
    status = getattr(vars(error).get("response"), "status_code", None)
    if isinstance(status, int):
        return f"it answers with status {status}"
    if isinstance(error, ssl.SSLError):
        return _tls_words(error)
    if isinstance(error, TimeoutError) and _HANDSHAKE_TIMEOUT in str(error):
        return f"it does not answer in time; perhaps {_NO_TLS}"
    return next((words for kind, words in _SAID_BY_TYPE.items() if isinstance(error, kind)), "")


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not accepted here"
    # An alert is TLS: the two have no version or cipher in common.
    return "it refuses TLS as it is spoken here" if "ALERT" in (error.reason or "") else _NO_TLS


def _by_number(causes: list[BaseException]) -> str:
    """What the system says, where nothing says more; a timeout comes with and without a number."""
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return "it does not answer in time"
    numbers = (cause.errno for cause in causes if isinstance(cause, OSError))
    return next((os.strerror(number) for number in numbers if number), "")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that it wraps, each once: raised from, raised while, `reason`, or given as an argument."""
    seen: set[int] = set()
    left = [error]
    while left:
        one = left.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        before = one.__cause__ if one.__suppress_context__ else one.__cause__ or one.__context__
        wrapped = [before, vars(one).get("reason"), *one.args]
        left += [other for other in wrapped if isinstance(other, BaseException)]
