"""Requests to the agent's HTTP server, on Qt's event loop.

Invariants: nothing blocks. Every request ends once: by its answer, by its deadline or by `close`. An answer's size is
limited. Proxies, redirects and cookies are off, so the token goes only to the given address. No signal of a reply is
connected: PySide 6.8 never frees such a reply, and the tray runs for weeks. GUI thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QByteArray, QObject, QTimer, QUrl
from PySide6.QtNetwork import QNetworkAccessManager, QNetworkProxy, QNetworkReply, QNetworkRequest

from node_app.ui.contact import Answered, Cause, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable

    from node_app.status.local_address import AgentAddress
    from node_app.ui.contact import Reply

DEADLINE_MS: Final = 3000
# Interval at which deadlines are checked while requests are in flight.
TICK_MS: Final = 100
ANSWER_LIMIT_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class _Exchange:
    """One request in flight.

    Attributes:
        receive: called with the outcome.
        ends_s: the request's deadline, monotonic time in seconds.
        cause: the reason why the request was aborted; None if it was not.
    """

    reply: QNetworkReply
    receive: Callable[[Reply], None]
    ends_s: float
    cause: Cause | None = None


class AgentClient(QObject):
    """Sends requests to an agent's HTTP server. It owns the requests; `close` ends them."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exchanges: list[_Exchange] = []
        self._manager = QNetworkAccessManager(self)
        self._manager.setProxy(QNetworkProxy(QNetworkProxy.ProxyType.NoProxy))
        self._manager.setRedirectPolicy(QNetworkRequest.RedirectPolicy.ManualRedirectPolicy)
        self._manager.finished.connect(self._finish)
        # Qt's own transfer timeout restarts with every byte, so it would never end an answer that trickles in.
        self._ticking = QTimer(self, interval=TICK_MS)
        self._ticking.timeout.connect(self._end_overdue)

    def get(self, address: AgentAddress, path: str, receive: Callable[[Reply], None]) -> None:
        """Send GET `path`. `receive` is called once with the outcome, later; never if `close` is called first."""
        self._start(self._manager.get(_request(address, path)), receive)

    def post(self, address: AgentAddress, path: str, receive: Callable[[Reply], None]) -> None:
        """Send POST `path` with an empty body. `receive` is called as in `get`."""
        self._start(self._manager.post(_request(address, path), QByteArray()), receive)

    @property
    def in_flight(self) -> int:
        """The number of requests that have not ended."""
        return len(self._exchanges)

    def close(self) -> None:
        """End every request without calling its `receive`. Idempotent."""
        self._ticking.stop()
        exchanges, self._exchanges = self._exchanges, []
        for exchange in exchanges:
            exchange.reply.abort()
            exchange.reply.deleteLater()

    def _start(self, reply: QNetworkReply, receive: Callable[[Reply], None]) -> None:
        # Once the buffer is full, Qt stops reading, so a too large answer never finishes and `_end_overdue` sees it.
        reply.setReadBufferSize(ANSWER_LIMIT_BYTES + 1)
        self._exchanges.append(_Exchange(reply, receive, time.monotonic() + DEADLINE_MS / 1000))
        self._ticking.start()

    def _end_overdue(self) -> None:
        now_s = time.monotonic()
        for exchange in list(self._exchanges):
            is_too_large = exchange.reply.bytesAvailable() > ANSWER_LIMIT_BYTES
            if is_too_large or now_s >= exchange.ends_s:
                exchange.cause = Cause.TOO_LARGE if is_too_large else Cause.TOO_SLOW
                exchange.reply.abort()  # finishes it

    def _finish(self, reply: QNetworkReply) -> None:
        exchange = next((one for one in self._exchanges if one.reply is reply), None)
        if exchange is None:
            return  # ended by `close`
        self._exchanges.remove(exchange)
        if not self._exchanges:
            self._ticking.stop()
        outcome = _outcome(exchange)
        reply.deleteLater()
        exchange.receive(outcome)


def _outcome(exchange: _Exchange) -> Reply:
    if exchange.cause is not None:
        return Unanswered(exchange.cause)
    reply, error = exchange.reply, exchange.reply.error()
    status = reply.attribute(QNetworkRequest.Attribute.HttpStatusCodeAttribute)
    if isinstance(status, int) and error is not QNetworkReply.NetworkError.RemoteHostClosedError:
        return Answered(status, bytes(reply.readAll().data()))
    is_refused = error is QNetworkReply.NetworkError.ConnectionRefusedError
    return Unanswered(Cause.NOBODY_LISTENS if is_refused else Cause.BROKEN)


def _request(address: AgentAddress, path: str) -> QNetworkRequest:
    request = QNetworkRequest(QUrl(address.url + path))
    request.setRawHeader(b"Authorization", f"Bearer {address.token}".encode())
    request.setHeader(QNetworkRequest.KnownHeaders.ContentTypeHeader, "application/json")
    request.setAttribute(QNetworkRequest.Attribute.Http2AllowedAttribute, False)
    request.setAttribute(QNetworkRequest.Attribute.CookieLoadControlAttribute, QNetworkRequest.LoadControl.Manual)
    request.setAttribute(QNetworkRequest.Attribute.CookieSaveControlAttribute, QNetworkRequest.LoadControl.Manual)
    return request
