"""One tray for each state directory; a second one shows the first one's window and leaves.

Invariants: the lock decides, by process, so a tray that was killed locks nobody out; the socket only carries the
request to be shown, open to this user alone. GUI thread.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

if TYPE_CHECKING:
    from pathlib import Path

LOCK_FILE: Final = "tray.lock"
REQUEST_TIMEOUT_MS: Final = 2000


class TrayInstance(QObject):
    """This process's claim to be the tray of a state directory, which must exist."""

    show_requested = Signal()

    def __init__(self, state_dir: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = f"meshnet-tray-{hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:24]}"
        self._lock = QLockFile(str(state_dir / LOCK_FILE))
        # A tray runs for weeks: only the death of its process makes its lock stale.
        self._lock.setStaleLockTime(0)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)

    def claim(self) -> bool:
        """Be the only one; False where another is, which then has been asked to show itself."""
        if not self._lock.tryLock(0):
            self._request_show()
            return False
        # The name is ours now; what is left under it belongs to a tray that was killed.
        QLocalServer.removeServer(self._name)
        self._server.listen(self._name)  # without it a second tray is still refused, only not shown
        return True

    def release(self) -> None:
        """Let another be the one. Idempotent."""
        self._server.close()
        self._lock.unlock()

    def _request_show(self) -> None:
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if socket.waitForConnected(REQUEST_TIMEOUT_MS):
            socket.disconnectFromServer()

    def _on_connection(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.deleteLater()
            self.show_requested.emit()
