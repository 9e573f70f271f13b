"""Explains to people why a site cannot be reached, instead of showing an exception's name.

Invariants: pure; imports no network library, since each of them may be missing; the text names no address and quotes
nothing that came from outside.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_TLS: Final = "it does not speak TLS: is it http://?"
# The ssl module's text for a handshake that takes too long; the error has no type of its own.
_HANDSHAKE_TIMEOUT: Final = "handshake operation timed out"
# Compared by name, since each library has its own class.
_CLOSED_ERRORS: Final = frozenset({"ConnectionClosedError", "ConnectionClosedOK"})
_PROXY_ERRORS: Final = frozenset({"InvalidProxy", "ProxyError"})
_CLOSED: Final = "it closed the connection without an answer"
_TEXT_BY_TYPE: Final[dict[type[BaseException], str]] = {
    ConnectionRefusedError: "nothing listens there",
    socket.gaierror: "its name is not found",
    ConnectionResetError: _CLOSED,  # also http.client.RemoteDisconnected, a subclass
    BrokenPipeError: _CLOSED,
}


def why_unreachable(error: BaseException) -> str:
    """Return why a request or a connection failed, as text to put after "URL cannot be reached: ".

    Args:
        error: the error of requests, urllib3, websockets or the system; the errors that caused it are used as well.
    """
    causes = list(_causes(error))
    texts = (_text(cause) for cause in causes)
    return next((found for found in texts if found), None) or _by_number(causes) or "its answer is not understood"


def _text(error: BaseException) -> str:
    """Return the text that explains one error, without its causes; "" if there is no text for it."""
    if type(error).__name__ in _PROXY_ERRORS:
        return "the proxy that the environment names cannot be used"
    if type(error).__name__ in _CLOSED_ERRORS:
        return _CLOSED
    status = getattr(vars(error).get("response"), "status_code", None)
    if isinstance(status, int):
        return f"it answers with status {status}"
    if isinstance(error, ssl.SSLError):
        return _tls_text(error)
    if isinstance(error, TimeoutError) and _HANDSHAKE_TIMEOUT in str(error):
        return f"it does not answer in time; perhaps {_NO_TLS}"
    return next((text for kind, text in _TEXT_BY_TYPE.items() if isinstance(error, kind)), "")


def _tls_text(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not accepted here"
    # If it answers with an alert, it speaks TLS, but no version or cipher that this machine speaks.
    is_alert = "ALERT" in (error.reason or "")
    return "it accepts no version or cipher of TLS that this machine offers" if is_alert else _NO_TLS


def _by_number(causes: list[BaseException]) -> str:
    """Return the text for a timeout, if there is one, else the system's text for the first error number, else ""."""
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return "it does not answer in time"
    numbers = (cause.errno for cause in causes if isinstance(cause, OSError))
    return next((os.strerror(number) for number in numbers if number), "")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all errors that it was caused by or that its `reason` and arguments hold, each once."""
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
