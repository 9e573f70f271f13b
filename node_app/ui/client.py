"""Requests to the agent's endpoint, on Qt's event loop.

Invariants: nothing blocks; every request ends once, by its answer, by its deadline or by `close`; an answer's size is
bounded; no proxy, no redirect, no cookie: the token goes to the address that was given and nowhere else. GUI thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QByteArray, QObject, QTimer, QUrl, Signal
from PySide6.QtNetwork import QNetworkAccessManager, QNetworkProxy, QNetworkReply, QNetworkRequest

from node_app.ui.contact import Answered, Cause, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable

    from node_app.local_address import AgentAddress
    from node_app.ui.contact import Reply

DEADLINE_MS: Final = 3000
ANSWER_LIMIT_BYTES: Final = 256 * 1024


class _Exchange(QObject):
    """One request on its way. Emits `done` once, then deletes itself."""

    done = Signal(object)

    def __init__(self, reply: QNetworkReply, parent: QObject) -> None:
        super().__init__(parent)
        self._reply = reply
        self._cause: Cause | None = None
        reply.setParent(self)
        reply.setReadBufferSize(ANSWER_LIMIT_BYTES + 1)
        reply.readyRead.connect(self._check_size)
        reply.finished.connect(self._finish)
        # Qt's own transfer timeout begins anew with every byte; an answer that drips must end too.
        self._deadline = QTimer(self, singleShot=True, interval=DEADLINE_MS)
        self._deadline.timeout.connect(lambda: self._abort(Cause.TOO_SLOW))
        self._deadline.start()

    def _check_size(self) -> None:
        if self._reply.bytesAvailable() > ANSWER_LIMIT_BYTES:
            self._abort(Cause.TOO_LARGE)

    def _abort(self, cause: Cause) -> None:
        self._cause = self._cause or cause
        self._reply.abort()  # finishes it

    def _finish(self) -> None:
        self._deadline.stop()
        self.done.emit(self._outcome())
        self.deleteLater()

    def _outcome(self) -> Reply:
        if self._cause is not None:
            return Unanswered(self._cause)
        status = self._reply.attribute(QNetworkRequest.Attribute.HttpStatusCodeAttribute)
        error = self._reply.error()
        if isinstance(status, int) and error is not QNetworkReply.NetworkError.RemoteHostClosedError:
            return Answered(status, bytes(self._reply.readAll().data()))
        is_refused = error is QNetworkReply.NetworkError.ConnectionRefusedError
        return Unanswered(Cause.NOBODY_LISTENS if is_refused else Cause.BROKEN)

    def drop(self) -> None:
        """End it without a word."""
        self._deadline.stop()
        self._reply.finished.disconnect(self._finish)
        self._reply.abort()
        self.deleteLater()


class AgentClient(QObject):
    """Asks an agent. Owns its requests; `close` ends them."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._manager = QNetworkAccessManager(self)
        self._manager.setProxy(QNetworkProxy(QNetworkProxy.ProxyType.NoProxy))
        self._manager.setRedirectPolicy(QNetworkRequest.RedirectPolicy.ManualRedirectPolicy)
        self._exchanges: set[_Exchange] = set()

    def get(self, address: AgentAddress, path: str, receive: Callable[[Reply], None]) -> None:
        """Ask for `path`; `receive` is called once, later, unless `close` comes first."""
        self._start(self._manager.get(_request(address, path)), receive)

    def post(self, address: AgentAddress, path: str, receive: Callable[[Reply], None]) -> None:
        """Pull a lever; as `get`."""
        self._start(self._manager.post(_request(address, path), QByteArray()), receive)

    def _start(self, reply: QNetworkReply, receive: Callable[[Reply], None]) -> None:
        exchange = _Exchange(reply, self)
        self._exchanges.add(exchange)

        def end(outcome: Reply) -> None:
            self._exchanges.discard(exchange)
            receive(outcome)

        exchange.done.connect(end)

    @property
    def in_flight(self) -> int:
        """Requests that have not ended."""
        return len(self._exchanges)

    def close(self) -> None:
        """End every request without calling anybody. Idempotent."""
        while self._exchanges:
            self._exchanges.pop().drop()


def _request(address: AgentAddress, path: str) -> QNetworkRequest:
    request = QNetworkRequest(QUrl(address.url + path))
    request.setRawHeader(b"Authorization", f"Bearer {address.token}".encode())
    request.setHeader(QNetworkRequest.KnownHeaders.ContentTypeHeader, "application/json")
    request.setAttribute(QNetworkRequest.Attribute.Http2AllowedAttribute, False)
    request.setAttribute(QNetworkRequest.Attribute.CookieLoadControlAttribute, QNetworkRequest.LoadControl.Manual)
    request.setAttribute(QNetworkRequest.Attribute.CookieSaveControlAttribute, QNetworkRequest.LoadControl.Manual)
    return request
